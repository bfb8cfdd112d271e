"""The publish station for folders that a web server, rsync or an object store hands out file by file."""
