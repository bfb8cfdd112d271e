"""Symbols that moved into libc.so.6 in glibc 2.34 from libraries beside it.

Its NEWS: "all functionality formerly implemented in the libraries libpthread, libdl, libutil, libanl has been
integrated into libc"; its lists of symbols show it for librt and, in part, for libresolv. A file may use such a symbol
without a version, and not need the library that had it. An older glibc does not find the symbol.
"""

from __future__ import annotations

MOVED_IN = "2.34"
# Each name that libc.abilist of 2.34 has, and the .abilist of this library, but not libc's, of 2.33: those of
# sysdeps/unix/sysv/linux/x86_64/64; those for aarch64 are equal. libdl and libpthread are not here: the CUDA runtime
# needs them, and so does Python; nvcc links every program with the runtime.
_LIBRARIES = {
    "librt.so.1": """
        __mq_open_2 aio_cancel aio_cancel64 aio_error aio_error64 aio_fsync aio_fsync64 aio_init aio_read
        aio_read64 aio_return aio_return64 aio_suspend aio_suspend64 aio_write aio_write64 lio_listio
        lio_listio64 mq_close mq_getattr mq_notify mq_open mq_receive mq_send mq_setattr mq_timedreceive
        mq_timedsend mq_unlink shm_open shm_unlink timer_create timer_delete timer_getoverrun timer_gettime
        timer_settime
    """,
    "libutil.so.1": "forkpty login login_tty logout logwtmp openpty",
    "libanl.so.1": "gai_cancel gai_error gai_suspend getaddrinfo_a",
    "libresolv.so.2": """
        __dn_comp __dn_expand __dn_skipname __res_dnok __res_hnok __res_mailok __res_mkquery __res_nmkquery
        __res_nquery __res_nquerydomain __res_nsearch __res_nsend __res_ownok __res_query __res_querydomain
        __res_search __res_send ns_name_compress ns_name_ntop ns_name_pack ns_name_pton ns_name_skip
        ns_name_uncompress ns_name_unpack
    """,
}
MOVED = {name: library for library, names in _LIBRARIES.items() for name in names.split()}
"""Symbol -> the library that has it before `MOVED_IN`."""
