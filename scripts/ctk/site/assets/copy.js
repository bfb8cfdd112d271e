// Adds a button to commands and files that copies them.
"use strict";
for (const box of document.querySelectorAll(".copy")) {
  const text = box.querySelector("pre");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy: ${text.getAttribute("aria-label")}`);
  const said = document.createElement("span");
  said.className = "visually-hidden";
  said.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      said.textContent = "Copied";
    } catch {
      // A page without https, or in a folder, may not use the clipboard: the text is selected, and copied the older way.
      getSelection().selectAllChildren(text);
      said.textContent = document.execCommand("copy") ? "Copied" : "Selected: press the keys for copying";
    }
    button.textContent = said.textContent.split(":")[0];
    setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 2000);
  });
  box.append(button, said);
}
