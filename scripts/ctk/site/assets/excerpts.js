// Shows a line with the typed words below each result of the search in the docs. Sphinx would fetch the pages, which a page
// in a folder may not; texts.js has the text of each page instead.
"use strict";
{
  const typed = (new URLSearchParams(location.search).get("q") ?? "").trim();
  // All that was typed, else one of its words, else one without its end, as the search finds "driver" for "drivers".
  const shorter = [0, 1, 2, 3].map((less) => typed.split(/\s+/).map((word) => word.slice(0, Math.max(3, word.length - less))));
  const escaped = (part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const patterns = [[typed], ...shorter].map((parts) => new RegExp(`(?<![a-z0-9])(${parts.map(escaped).join("|")})`, "gi"));

  /** Where a text has what was typed, and its length. */
  const find = (text, from) => {
    for (const pattern of patterns) {
      pattern.lastIndex = from;
      const found = pattern.exec(text);
      if (found) return [found.index, found[0].length];
    }
    return [from, 0];
  };

  const excerpt = (text, section) => {
    const [at, length] = find(text, text.indexOf(section) + section.length);
    const before = text.slice(0, at).slice(-30).replace(/^\S* /, "");
    const line = Object.assign(document.createElement("p"), { className: "excerpt" });
    line.append(`… ${before}`, Object.assign(document.createElement("mark"), { textContent: text.slice(at, at + length) }), text.slice(at + length, at + 150));
    return line;
  };

  new MutationObserver((changes) => {
    for (const item of changes.flatMap(({ addedNodes }) => [...addedNodes]).filter(({ tagName }) => tagName === "LI")) {
      const link = item.querySelector("a");
      const text = TEXTS[link.getAttribute("href").split(".html")[0]];
      if (text) item.append(excerpt(text, link.textContent.split(" > ").at(-1)));
    }
  }).observe(document.getElementById("search-results"), { childList: true, subtree: true });
}
