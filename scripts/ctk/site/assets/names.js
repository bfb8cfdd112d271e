// Names that are similar to a typed name. OTHER_NAMES, at the end, has names of pip and of older CUDA: a sentence, and the
// names here. `ctk solve` has the same.
"use strict";

/** How well a name fits a typed text: 0 if equal, 1 if it begins with it, 2 if it contains it, else 3. */
function misfit(name, typed) {
  if (name === typed) return 0;
  if (name.startsWith(typed)) return 1;
  return name.includes(typed) ? 2 : 3;
}

/** The Levenshtein distance of two words. */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, place) => place);
  for (let line = 1; line <= one.length; line += 1) {
    const above = row;
    row = [line];
    for (let place = 1; place <= other.length; place += 1) {
      const same = above[place - 1] + (one[line - 1] === other[place - 1] ? 0 : 1);
      row.push(Math.min(same, above[place] + 1, row[place - 1] + 1));
    }
  }
  return row.at(-1);
}

/** What a wheel of NVIDIA has in its name, else the name: "nvjitlink" for "nvidia-nvjitlink-cu12". */
const ofWheel = (name) => name.toLowerCase().replace(/^nvidia-(.+?)(-cu\d\d)?$/, "$1").replace("cuda-runtime", "cuda-cudart");

/** At most three similar names, the most similar first; or those of what is called otherwise here. */
function nearest(typed, names) {
  const wanted = ofWheel(typed);
  if (OTHER_NAMES.has(wanted)) return OTHER_NAMES.get(wanted)[1].filter((name) => names.includes(name));
  const far = (name) => (misfit(name, wanted) < 3 ? misfit(name, wanted) - 3 : distance(name, wanted));
  const near = names.map((name) => [far(name), name]).filter(([by]) => by <= Math.max(2, wanted.length / 3));
  return near.sort(([one], [other]) => one - other).slice(0, 3).map(([, name]) => name);
}
