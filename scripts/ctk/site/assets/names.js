// Names that are similar to a typed name, and names that are no packages here. `ctk site` writes what it knows of them at
// the end: OTHER_NAMES, WHEELS and COMPONENTS with the packages that are meant, and ELSEWHERE, what the next channel has.
// `ctk solve` has the same.
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

const MAJOR = /-cu(?:da)?\d\dx?(?=-|$)/; // in the name of a wheel

/** What is meant by a name that is not a package here: a sentence, and the packages; undefined for another name. */
function otherName(name) {
  const typed = name.toLowerCase();
  const pattern = [...OTHER_NAMES.keys()].find((key) => key.endsWith("*") && typed.startsWith(key.slice(0, -1)));
  const known = OTHER_NAMES.get(typed) ?? OTHER_NAMES.get(pattern);
  if (known) return known;
  const wheel = WHEELS.get(typed.replaceAll("_", "-").replace(MAJOR, ""));
  if (wheel) return wheel === typed ? undefined : [`${typed} is a wheel, for pip; its files are in the package ${wheel}`, [wheel]];
  const component = COMPONENTS.get(typed) ?? COMPONENTS.get(typed.replace(/^lib/, ""));
  return component && component !== typed ? [`${typed} is called ${component} here`, [component]] : undefined;
}

/** The package that is meant by a name; mostly the name itself. */
const meant = (name) => otherName(name)?.[1][0] ?? name.toLowerCase();

/** At most three similar names, the most similar first; or those of what is called otherwise here. */
function nearest(typed, names) {
  const wanted = typed.toLowerCase();
  const other = otherName(wanted);
  if (other) return other[1].filter((name) => names.includes(name));
  if (ELSEWHERE.has(wanted)) return [];
  const far = (name) => (misfit(name, wanted) < 3 ? misfit(name, wanted) - 3 : distance(name, wanted));
  const near = names.map((name) => [far(name), name]).filter(([by]) => by <= Math.max(2, wanted.length / 3));
  return near.sort(([one], [other]) => one - other).slice(0, 3).map(([, name]) => name);
}
