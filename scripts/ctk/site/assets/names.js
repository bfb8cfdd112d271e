// Names that are like one that was typed.
"use strict";

/** How well a name fits what was typed, the best first: the same, begins with it, has it in it, or 3 for none of these. */
function misfit(name, typed) {
  if (name === typed) return 0;
  if (name.startsWith(typed)) return 1;
  return name.includes(typed) ? 2 : 3;
}

/** How many letters must be typed anew to make one word of another (Levenshtein's distance). */
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

/** At most three names that somebody may have meant, the nearest first; none where nothing is near. */
function nearest(typed, names) {
  const wanted = typed.toLowerCase();
  const far = (name) => (misfit(name, wanted) < 3 ? misfit(name, wanted) - 3 : distance(name, wanted));
  const near = names.map((name) => [far(name), name]).filter(([by]) => by <= Math.max(2, wanted.length / 3));
  return near.sort(([one], [other]) => one - other).slice(0, 3).map(([, name]) => name);
}
