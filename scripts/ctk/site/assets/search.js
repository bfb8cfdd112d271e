// Narrows a table to the rows that have every word that was typed. Without this script the list is whole.
"use strict";
for (const box of document.querySelectorAll("[data-search]")) {
  const rows = [...document.getElementById(box.dataset.search).rows];
  const texts = rows.map((row) => row.cells[0].textContent.toLowerCase());
  const input = box.querySelector("input");
  const status = box.querySelector("[role=status]");
  const narrow = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let matches = 0;
    rows.forEach((row, place) => {
      row.hidden = !words.every((word) => texts[place].includes(word));
      matches += row.hidden ? 0 : 1;
    });
    status.textContent = words.length
      ? `${matches} of ${rows.length} match` + (matches ? "" : ": try fewer letters, or clear the box with Escape")
      : `${rows.length} packages`;
  };
  input.addEventListener("input", narrow);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = "";
      narrow();
    }
  });
  box.hidden = false;
  narrow(); // a browser may have kept what was typed before
}
