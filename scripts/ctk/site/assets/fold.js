// Folds the sections of a page of the docs on a phone, where a page is many windows high: the headings are then its table of
// contents. The first section stays open, and so does the one to which an address or a link leads.
"use strict";
{
  const phone = matchMedia("(max-width: 46em)"); // where the theme makes its text smaller
  const [, ...sections] = document.querySelectorAll("article section > section:has(> h2)");

  /** Puts a section into a box that folds: a reader presses its heading, with which its anchors stay. */
  function fold(section) {
    const [box, summary] = [document.createElement("details"), document.createElement("summary")];
    const content = [...section.childNodes];
    const place = content.indexOf(section.querySelector(":scope > h2"));
    summary.append(...content.slice(0, place + 1));
    box.append(summary, ...content.slice(place + 1));
    section.append(box);
  }

  function unfoldAll() {
    for (const box of document.querySelectorAll("article section > details")) box.open = true;
  }

  /** Unfolds the section that has the place of an address, and goes there. */
  function reveal(hash) {
    const target = document.getElementById(decodeURIComponent(hash.slice(1)));
    const box = target?.querySelector(":scope > details") ?? target?.closest("details");
    if (!box) return;
    box.open = true;
    target.scrollIntoView({ behavior: "instant" });
  }

  if (phone.matches && sections.length) {
    sections.forEach(fold);
    reveal(location.hash);
    window.addEventListener("hashchange", () => reveal(location.hash));
    document.addEventListener("click", ({ target }) => {
      const link = target.closest("a");
      if (link?.hash && link.hash === location.hash) reveal(link.hash); // then the address does not change
    });
    window.addEventListener("beforeprint", unfoldAll);
    phone.addEventListener("change", unfoldAll);
  }
}
