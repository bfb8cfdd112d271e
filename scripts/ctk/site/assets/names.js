// Names that are similar to a typed name, and names that are no packages here. `ctk site` writes what it knows of them at
// the end: OTHER_NAMES, WHEELS and COMPONENTS with the packages that are meant, ELSEWHERE, what the next channel has, and
// OTHERS, what the recipes make besides.
// `ctk solve` has the same.
"use strict";

/** The letters to change, add, drop or swap with the next one to make one word of another. */
function distance(one, other) {
  let [before, row] = [[], Array.from({ length: other.length + 1 }, (_, place) => place)];
  for (let line = 1; line <= one.length; line += 1) {
    const [earlier, above] = [before, row];
    [before, row] = [above, [line]];
    for (let place = 1; place <= other.length; place += 1) {
      const same = above[place - 1] + (one[line - 1] === other[place - 1] ? 0 : 1);
      const isSwapped = one[line - 1] === other[place - 2] && one[line - 2] === other[place - 1];
      row.push(Math.min(same, above[place] + 1, row[place - 1] + 1, isSwapped ? earlier[place - 2] + 1 : same));
    }
  }
  return row.at(-1);
}

/** How far a name is from a typed one; undefined if nobody would mean it. ctk/core/similar.py has the same rule. */
function far(name, typed) {
  const [words, wanted] = [name, typed].map((text) => text.split(/[-_.]/));
  if (words.join("") === wanted.join("") || [...words].sort().join() === [...wanted].sort().join()) return 0;
  const first = `${wanted[0]}-`; // which says nothing where both have it
  const skipped = name.startsWith(first) && typed.startsWith(first) ? first.length : 0;
  const [one, other] = [typed.slice(skipped), name.slice(skipped)];
  const mistakes = one.length < 3 ? Infinity : distance(one, other);
  if (mistakes <= Math.max(1, Math.floor(one.length / 4))) return mistakes;
  if (typed.length > 2 && name.startsWith(typed)) return 100;
  return words.includes(typed) || (typed.length > 3 && name.includes(typed)) ? 101 : undefined;
}

const MAJOR = /-cu(?:da)?\d\dx?(?=-|$)/; // in the name of a wheel

const A_FILE = /\.(?:h|hpp|cuh|so[.\d]*|a|dll|lib|exe|cmake|pc|ya?ml|toml|txt|lock|json|cfg)$/;
const A_LIBRARY = /\.(?:so[.\d]*|a|dll|lib)$/;

/** What is meant by a name that is not a package here: a sentence, the packages, and what is here instead; else undefined. */
function otherName(name) {
  const typed = name.toLowerCase();
  const pattern = [...OTHER_NAMES.keys()].find((key) => key.endsWith("*") && typed.startsWith(key.slice(0, -1)));
  const known = OTHER_NAMES.get(typed) ?? OTHER_NAMES.get(pattern);
  if (known) return [`${typed} is ${known[0]}`, known[1], known[2]];
  const wheel = WHEELS.get(typed.replaceAll("_", "-").replace(MAJOR, ""));
  if (wheel) return wheel === typed ? undefined : [`${typed} is a wheel, for pip; its files are in the package ${wheel}`, [wheel]];
  const component = COMPONENTS.get(typed) ?? COMPONENTS.get(typed.replace(/^lib/, ""));
  if (component && component !== typed) return [`${typed} is called ${component} here`, [component]];
  if (!A_FILE.test(typed)) return undefined;
  const bare = typed.replace(A_LIBRARY, "");
  const owner = COMPONENTS.get(bare) ?? COMPONENTS.get(bare.replace(/^lib/, ""));
  if (owner && bare !== typed) return [`${typed} is a file of the package ${owner}`, [owner]];
  return [`${typed} is the name of a file, and only names of packages are found here`, []];
}

/** The package that is meant by a name; mostly the name itself. */
const meant = (name) => otherName(name)?.[1][0] ?? name.toLowerCase();

/** At most three similar names, the most similar first; or those of what is called otherwise here. */
function nearest(typed, names) {
  const wanted = typed.toLowerCase();
  const other = otherName(wanted);
  if (other) return other[1].filter((name) => names.includes(name));
  if (ELSEWHERE.has(wanted)) return [];
  const all = names.map((name) => [far(name, wanted), name]).filter(([by]) => by !== undefined).sort(([one], [other]) => one - other);
  const isTelling = (by) => by < 100 || all.filter(([other]) => other === by).length <= 6;
  const near = all.filter(([by]) => all[0][0] ? isTelling(by) : !by);
  return near.slice(0, 3).map(([, name]) => name);
}

/** The sentence about names that were found: what a name is called here is known, others are a guess. */
const advice = (typed, near) => (otherName(typed) ? `Ask for ${near.join(", or ")}.` : `Did you mean ${near.join(", or ")}?`);
