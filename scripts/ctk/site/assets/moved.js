// A page that moved leads to its new address, and to the heading that the old address names.
"use strict";

const next = new URL(document.querySelector('link[rel="canonical"]').href);
if (location.hash) next.hash = location.hash;
location.replace(next);
