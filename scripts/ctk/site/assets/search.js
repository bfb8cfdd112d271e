// Filters a table to the rows that have every typed word, or what is meant by them, the best names first. The address keeps what is typed.
"use strict";

/** How well a name fits a typed text: 0 if equal, 1 if it begins with it, 2 if it contains it, else 3. */
function misfit(name, typed) {
  if (name === typed) return 0;
  if (name.startsWith(typed)) return 1;
  return name.includes(typed) ? 2 : 3;
}

for (const box of document.querySelectorAll("[data-search]")) {
  const body = document.getElementById(box.dataset.search);
  const rows = [...body.rows].map((row) => {
    const [name, parts, cell] = [row.querySelector("a"), row.querySelector("details"), row.cells[0]];
    const text = cell.textContent.toLowerCase();
    return { row, parts, text, name: name.textContent.toLowerCase(), own: text.replace(parts?.textContent.toLowerCase(), "") };
  });
  const input = box.querySelector("input");
  const status = box.querySelector("[role=status]");
  const narrow = () => {
    const typed = input.value.toLowerCase().trim();
    const wanted = meant(typed);
    const phrases = [typed, wanted].map((phrase) => phrase.split(/\s+/).filter(Boolean));
    const has = (text) => phrases.some((words) => words.every((word) => text.includes(word)));
    const ordered = [...rows].sort((one, other) => misfit(one.name, wanted) - misfit(other.name, wanted));
    body.append(...(typed ? ordered : rows).map(({ row }) => row));
    for (const { row, parts, text, own } of rows) {
      row.hidden = !has(text);
      if (parts) parts.open = !has(own); // unfolded for a word that only a part has
    }
    const matches = rows.filter(({ row }) => !row.hidden).length;
    const near = matches ? [] : nearest(typed, rows.map(({ name }) => name));
    const [head, , here] = otherName(typed) ?? [];
    const other = [head, here].filter(Boolean).join("; ");
    const several = typed.split(/[\s,;]+/).filter(Boolean);
    const isKnown = (name) => rows.some((row) => row.name === name) || ELSEWHERE.has(name);
    const areNames = several.length > 1 && several.every(isKnown);
    status.textContent = typed
      ? `${matches} of ${rows.length} match` + (other ? `. ${other}` : "") + (near.length ? `. ${advice(typed, near)}` : matches || areNames || A_FILE.test(typed) ? "" : ". Not in this channel.")
      : `${rows.length} packages, and ${body.querySelectorAll(".parts li").length} parts of them in their rows`;
    const commandFor = (names, textContent) => {
      const link = document.createElement("a");
      link.href = `index.html#${new URLSearchParams({ package: names })}`;
      link.textContent = textContent;
      status.append(" ", link);
    };
    if (areNames) commandFor(several.join(" "), `One command for ${several.join(" and ")}`);
    else if (typed && !matches && !near.length && ELSEWHERE.has(wanted)) commandFor(typed, `A command for ${typed} from another channel`);
    try {
      history.replaceState(null, "", typed ? `#${new URLSearchParams({ search: typed })}` : location.pathname);
    } catch {
      // some browsers refuse it for a page in a folder
    }
  };
  input.addEventListener("input", narrow);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = "";
      narrow();
    }
  });
  box.hidden = false;
  input.value = new URLSearchParams(location.hash.slice(1)).get("search") ?? input.value;
  narrow();
}
