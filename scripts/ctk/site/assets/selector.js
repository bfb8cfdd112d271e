// The front page: looks up the answer to the chosen values, and shows it. A solver gave all answers when the site was
// made; a combination that was not solved has no answer.
"use strict";
(() => {
  const offered = JSON.parse(document.getElementById("offered").textContent);
  const at = (id) => document.getElementById(id);
  const shards = new Map(); // name -> promise of the answers
  const arrived = new Map(); // name -> what to call when its script has run
  const ready = new Set(); // names of those that have

  window.ctkAnswers = (name, content) => arrived.get(name)?.(content);

  /** The answers about a package with a Python, loaded once, as a script, since a page in a folder may not fetch. */
  function load(name) {
    if (!shards.has(name)) {
      shards.set(name, new Promise((resolve, reject) => {
        arrived.set(name, (content) => { ready.add(name); resolve(content); });
        const script = document.createElement("script");
        script.src = `answers/${name}.js`;
        // A truncated file loads, and has no answers.
        script.onload = script.onerror = () => {
          if (!ready.has(name)) { shards.delete(name); reject(new Error(name)); }
        };
        document.head.append(script);
      }));
    }
    return shards.get(name);
  }

  /** An answer of those that were loaded; null if it was not solved. */
  function lookUp(answers, axes, { driver, gpu, pin }) {
    const end = standIn(driver, axes);
    const row = answers.rows[answers.grid[pin]?.[axes.drivers.indexOf(end)]];
    let left = axes.gpus.indexOf(gpu);
    if (!row || left < 0) return null;
    for (let place = 0; place < row.length; place += 2) {
      if (left < row[place + 1]) return readAnswer(answers, row[place], end, driver);
      left -= row[place + 1];
    }
    return null;
  }

  /** The answer at a place, whose texts name the driver that was asked for, and this channel. */
  function readAnswer(answers, place, end, driver) {
    const [pick, toolkit, fit, title, reasons, lasts, works, nvcc = [], exception] = answers.answers[place];
    const solved = new RegExp(`(?<= )${end}(?!\\.?\\d)`, "g");
    const line = (of) => answers.lines[of].map((part) => answers.texts[part]).join(" ").replace(solved, driver);
    const packages = pick < 0 ? null : answers.picks[pick].map((record) => answers.records[record]);
    return { packages, toolkit, fit, title: line(title), reasons: reasons.map(line), lasts: Boolean(lasts), works: Boolean(works), nvcc, exception: exception === undefined ? "" : line(exception) };
  }

  /** Whether a version of two numbers is before another: 9.0 is before 10.0. */
  function isLess(one, other) {
    const [[major, minor], [wanted, last]] = [one, other].map((text) => text.split(".").map(Number));
    return major < wanted || (major === wanted && minor < last);
  }

  const usualClient = document.querySelector("input[name=client]").value;
  const picked = (name) => document.querySelector(`input[name=${name}]:checked`)?.value ?? "";

  /** What is chosen now. The driver is a CUDA version, null without one, and undefined where the client is to find it;
   * gpu is undefined where what was typed is not a GPU. */
  function chosen() {
    const machine = picked("machine");
    const typed = machine === "choose" ? at("gpu").value.trim() : "";
    const platform = picked("platform");
    const name = namesIn(at("package").value).join(" ") || picked("first");
    const pin = picked("pin");
    const needsCuda = pin || !offered.platforms[platform].without_cuda.includes(name);
    const driver = machine === "none" ? null : (machine === "choose" && at("driver").value) || (needsCuda ? undefined : null);
    return {
      platform,
      client: picked("client"),
      package: name,
      python: hasPython(name, platform) ? picked("python") : "",
      pin,
      machine,
      needsCuda,
      driver,
      gpu: typed && driver !== null ? gpuOfText(typed, offered.gpus) ?? undefined : null,
    };
  }

  /** The names of packages in a text: several may be asked for at once, with spaces or commas between them. */
  function namesIn(text) {
    const names = [...new Set(text.split(/[\s,;]+/).filter(Boolean))];
    return names.every((name) => /^[\w.-]+$/.test(name)) ? names : [text.trim()];
  }

  /** Whether a Python can be chosen: not for a package of this channel that brings none. */
  function hasPython(name, platform) {
    const { packages, of_python } = offered.platforms[platform];
    return of_python.includes(name) || !packages.includes(name);
  }

  // The commands

  const request = (now) => [...namesIn(now.package), ...offered.pins[now.pin].specs, ...offered.pythons[now.python].specs];
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `"${word}"`);
  const onWindows = (now) => now.platform.startsWith("win-");
  const onArm = (now) => /-a/.test(now.platform);

  /** What is requested before the package. With the driver in the request, conda and mamba cannot ignore it, and install
   * a toolkit that it cannot run. Where a native toolkit is known to serve, no other one may replace it later. */
  function asking(now, lasts) {
    if (now.driver === null || !now.needsCuda || [offered.asks, offered.lasts].includes(now.package)) return [];
    return [(lasts && offered.lasts) || offered.asks];
  }

  /** The same for pixi, which always sees the driver: CUDA builds of another channel are asked for, and what lasts. */
  const asksInPixi = (now, lasts) => (lasts || isForeign(now) ? asking(now, lasts) : []);
  const askingIn = (now, lasts) => (now.client === "pixi" ? asksInPixi : asking)(now, lasts);

  /** The packages of an answer, and those of what its command asks for besides, by name. */
  async function withAsked(now, { packages, toolkit, lasts }) {
    const [name] = askingIn(now, lasts);
    if (!offered.platforms[now.platform].packages.includes(name)) return packages;
    const { answer } = await find({ ...now, package: name, python: "", pin: toolkit || now.pin });
    const more = (answer?.packages ?? []).filter(([one]) => !packages.some(([other]) => other === one));
    return [...packages, ...more].sort(([one], [other]) => (one < other ? -1 : 1));
  }

  function typedCommand(begin, asks, now, pin) {
    const asked = pin ? [...request(now).filter((spec) => !spec.startsWith("cuda-version")), `cuda-version=${pin}`] : request(now);
    const command = begin[now.client] + [...asks, ...asked].map(quoted).join(" ");
    // PowerShell and cmd continue lines with different characters, so there is one line.
    return onWindows(now) ? command.replaceAll(" \\\n  ", " ") : command;
  }

  /** The end of a command that creates an environment: it activates it. conda and mamba ask whether to proceed, and && keeps
   * the second line of a paste from being the answer. The PowerShell of Windows has no &&. */
  function thenActivate(now) {
    if (now.client === "pixi") return "\npixi shell";
    return `${onWindows(now) ? "" : " &&"}\n${now.client} activate ${offered.environment}`;
  }

  /** What is requested before a package that is added to an environment of the page's command. conda and pixi remember
   * what was asked for, and conda's default solver may remove what is named again; mamba does not remember. */
  function askingAgain(now, { lasts, fit }) {
    const isRemembered = now.client === "pixi" ? lasts || !isForeign(now) : now.client === "conda" && lasts;
    return fit === "compat" || isRemembered ? [] : asking(now, true);
  }

  function manifest(now, asks) {
    const text = (value) => JSON.stringify(value);
    const machine = now.driver
      ? `{ platform = ${text(now.platform)}, cuda = { driver = ${text(now.driver)}${now.gpu ? `, arch = ${text(now.gpu)}` : ""} } }`
      : text(now.platform);
    return [
      "[workspace]",
      `name = ${text(offered.environment)}`,
      `channels = [${offered.channels.map(text).join(", ")}]`,
      `platforms = [${machine}]`,
      "",
      "[dependencies]",
      ...asks.map((name) => `${name} = "*"`),
      ...namesIn(now.package).filter((name) => name !== "cuda-version" || !now.pin).map((name) => `${name} = "*"`),
      ...offered.pins[now.pin].lines,
      ...offered.pythons[now.python].lines,
    ].join("\n");
  }

  /** More that the reader of a command should know: a sentence, and words in front of the command. */
  function hint(now) {
    if (now.driver === undefined) {
      return [`${offered.asks} asks for a driver, and for CUDA builds. If this machine has no driver, such as a login node, paste what nvidia-smi prints on the other machine, or take "choose".`, ""];
    }
    const set = [`CONDA_SUBDIR=${now.platform}`, `CONDA_OVERRIDE_CUDA=${now.driver ?? '""'}`];
    if (now.gpu) set.push(`CONDA_OVERRIDE_CUDA_ARCH=${now.gpu}`);
    return onWindows(now)
      ? ["To solve for that machine on another one, set these variables first:", set.join("\n")]
      : ["To solve for that machine on another one, such as a login node, put this in front of the command:", set.join(" ")];
  }

  const blind = (now) => now.client === "conda" ? "conda does not see the GPU without the plugin nvidia-virtual-packages" : `${now.client} does not see the GPU`;

  /** The pin that a GPU needs which the client does not see, and a sentence about it; [] if there is none. */
  function older(now) {
    const floor = offered.platforms[now.platform].floor;
    if (!floor || now.pin || (now.gpu && !isLess(now.gpu, floor[0]))) return [];
    const such = Object.keys(offered.gpus).find((name) => isLess(offered.gpus[name], floor[0]) && !name.startsWith("Jetson"));
    const which = `For a GPU older than compute capability ${floor[0]}${such ? `, such as ${such}` : ""}`;
    if (now.client === "pixi") return now.gpu ? [] : ["", `${which}, say above which GPU it is.`]; // its file states the GPU
    if (now.gpu) return [floor[1], `cuda-version=${floor[1]} is for GPU ${now.gpu}: ${blind(now)}.`];
    return ["", `${which}, add cuda-version=${floor[1]}: ${blind(now)}.`];
  }

  const named = new Set(Object.values(offered.gpus));

  /** Whether the machine of an answer can exist: one that cannot has no next step. */
  const canExist = (answer) => Boolean(answer?.packages || answer?.reasons.length || answer?.nvcc.length);

  /** The oldest and the newest GPU with the toolkit of an answer for any GPU; undefined if the driver runs none beyond. */
  function ends(now, answers, axes, toolkit) {
    const of = (gpu) => lookUp(answers, axes, { ...now, gpu });
    const there = axes.gpus.filter((gpu) => named.has(gpu) && canExist(of(gpu)));
    const same = there.filter((gpu) => of(gpu).packages && ["", toolkit].includes(of(gpu).toolkit));
    return [same[0] === there[0] ? undefined : same[0], same.at(-1) === there.at(-1) ? undefined : same.at(-1)];
  }

  /** The oldest driver that gets the package, where others get a toolkit with an older one; else "". */
  async function needed(now) {
    const axes = offered.platforms[now.platform];
    try {
      const answers = await load(shardOf(now));
      const gets = (driver) => driver && axes.gpus.some((gpu) => lookUp(answers, axes, { ...now, driver, gpu })?.packages);
      const first = axes.drivers.find(gets);
      return first && first !== axes.drivers[2] ? first : ""; // after none, and one that is too old
    } catch {
      return "";
    }
  }

  /** Whether the chosen GPU is one that the newest CUDA major does not know. */
  const isOld = (now) => Boolean(now.gpu && !now.pin && offered.platforms[now.platform].floor && isLess(now.gpu, offered.platforms[now.platform].floor[0]));

  /** What GPUs for which `older` has words can have: whether one gets the package with any driver, and the answer that has
   * conda-forge's nvcc in its place, for the chosen GPU if there is one. */
  async function ofOld(now) {
    const axes = offered.platforms[now.platform];
    try {
      const answers = await load(shardOf(now));
      const old = axes.gpus.filter((gpu) => gpu && isLess(gpu, axes.floor[0]));
      const given = (gpus) => [...axes.drivers].reverse().flatMap((driver) => gpus.map((gpu) => lookUp(answers, axes, { ...now, driver, gpu })));
      return {
        gets: given(old).some((answer) => answer?.packages),
        elsewhere: given(now.gpu ? [now.gpu] : old).find((answer) => answer?.nvcc.length),
      };
    } catch {
      return { gets: true };
    }
  }

  /** Says, in place of the words of `older`, that no old GPU gets the package, and what it gets instead. */
  function showNoOld(now, elsewhere) {
    const [first] = offered.platforms[now.platform].floor;
    if (!now.gpu) {
      const more = elsewhere ? " For an older one, say above which GPU it is." : "";
      notice(`It is for GPUs of compute capability ${first} and newer.${more}`);
    } else if (elsewhere) showElsewhere(now, elsewhere);
    else show("refused", `No ${now.package} of this channel is for GPU ${now.gpu}`, "", [`Use a GPU of compute capability ${first} or newer.`]);
  }

  /** The pin for a client that ignores the GPU, which gets the answer for a GPU that is not detected; and a sentence. */
  function unseenPin(now, { toolkit }, unseen) {
    if (now.client === "pixi" || !now.gpu || unseen?.toolkit === toolkit) return [];
    const instead = unseen?.toolkit ? `would take CUDA ${unseen.toolkit}` : "would find nothing";
    return [toolkit, `cuda-version=${toolkit} is for GPU ${now.gpu}: ${blind(now)}, and ${instead}.`];
  }

  // The answer

  /** A sentence with a capital letter, unless it begins with the name of a package. */
  const sentence = (text) => text.replace(/^[a-z]+(?=[ ,:;])/, (word) =>
    Object.values(offered.platforms).some((axes) => axes.packages.includes(word)) ? word : word[0].toUpperCase() + word.slice(1));

  function size(bytes) {
    const units = ["B", "kB", "MB", "GB"];
    let place = 0;
    while (bytes >= 999.5 && place < 3) { bytes /= 1000; place += 1; }
    return `${place ? Number(bytes.toPrecision(3)) : bytes} ${units[place]}`;
  }

  const fillList = (list, lines) =>
    list.replaceChildren(...lines.map((line) => {
      const item = document.createElement("li");
      item.append(...[line].flat().flatMap((part) => typeof part === "string" ? marked(part) : [part]));
      return item;
    }));

  /** A text with what is between backticks as code. */
  const marked = (text) => text.split("`").map((part, place) => place % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part);

  const linked = (textContent, href) => Object.assign(document.createElement("a"), { textContent, href });

  /** A link that chooses a package, and keeps what else is chosen. */
  function choosing(name) {
    const kept = new URLSearchParams(location.hash.slice(1));
    kept.set("package", name);
    return linked(name, `#${kept}`);
  }

  /** Links to packages, in the words of `advice`. */
  function proposed(typed, near) {
    const [begin, end] = otherName(typed) || offered.parts[typed] ? ["Ask for ", "."] : ["Did you mean ", "?"];
    return [begin, ...near.flatMap((name, place) => [place ? ", or " : "", choosing(name)]), end];
  }

  /** States are: waiting, solved, detected (the client finds the machine), refused (there is no solution), unsolved. */
  function show(state, title, summary = "", todo = []) {
    at("answer").dataset.state = at("verdict").dataset.state = state;
    at("title").textContent = title;
    at("summary").textContent = summary;
    fillList(at("todo"), todo);
    at("todo").hidden = !todo.length;
    at("install").hidden = state !== "solved" && state !== "detected";
    at("client").hidden = at("install").hidden && picked("client") !== "pixi";
    at("pick").hidden = at("toolkits").hidden = state !== "solved";
    at("unseen").hidden = true;
    at("verdict").dataset.works = "";
  }

  function showPick(now, answer, unseen, [oldest, newest]) {
    const { packages, title, reasons, works, exception } = answer;
    const known = packages.every(([, , , bytes]) => bytes > 0);
    const total = packages.reduce((sum, [, , , bytes]) => sum + bytes, 0);
    const download = known ? `${size(total)} to download` : "their size is not known before they are built";
    const number = `${packages.length} package${packages.length === 1 ? "" : "s"}`;
    const axes = offered.platforms[now.platform];
    const machine = now.driver
      ? `driver for CUDA ${driverWords(now.driver, axes)}, ${now.gpu ? `GPU ${now.gpu}` : "any GPU that it runs"}`
      : now.needsCuda ? "no driver" : "any machine";
    const range = oldest && newest ? `${oldest} to ${newest}` : oldest ? `${oldest} or newer` : `${newest} or older`;
    const limit = oldest || newest ? `, if its GPU has compute capability ${range}` : "";
    const isStrange = now.machine === "choose" && strange && !now.gpu;
    const head = isStrange ? `CUDA ${answer.toolkit} for this driver, but its GPU ${strange} is not known here` : sentence(title) + limit;
    const about = `${now.package} on ${now.platform}, ${machine}: ${number}, ${download}.`;
    show("solved", head, exception ? `${sentence(exception)}. ${about}` : about);
    at("verdict").dataset.works = works && !isStrange;
    at("pick-title").textContent = `What is installed: ${number}`;
    at("packages-picked").replaceChildren(...packages.map(([name, version, build, bytes, channel]) => {
      const row = document.createElement("tr");
      [name, version, build, channel, bytes ? size(bytes) : ""].forEach((text, place) => {
        const cell = document.createElement(place ? "td" : "th");
        cell.append(...text.split(/(?<=_)/).flatMap((part) => [part, document.createElement("wbr")]));
        if (!place) cell.scope = "row";
        if (place === 4) cell.className = "number";
        row.append(cell);
      });
      return row;
    }));
    fillList(at("why"), reasons);
    const [pin, why] = unseenPin(now, answer, unseen);
    notice([why, oldest && older(now)[1], newest && "For a newer GPU, say above which one it is."].filter(Boolean).join(" "));
    showCommand(now, pin, answer);
  }

  function notice(text) {
    at("unseen").textContent = text ?? "";
    at("unseen").hidden = !text;
  }

  /** A package that the channel does not have, and the next one perhaps does. */
  function showForeign(now, { answer, unseen }) {
    const [, next] = offered.channels;
    const how = now.driver === null ? "" : ", as a CUDA build if there is one, with a toolkit that the driver runs";
    const name = meant(now.package);
    const steps = isNotBuilt(name) ? [howToBuild(name, now)] : [];
    show("detected", `${name} comes from another channel`, `This channel does not have it, so nothing was solved. The command takes it from ${next}, if it is there${how}.`, steps);
    const [pin, why] = (answer && unseenPin(now, answer, unseen)) ?? [];
    const [old, whyOld] = older(now);
    const concernsOld = now.gpu || now.driver === undefined;
    notice(why ?? (concernsOld ? whyOld : ""));
    showCommand({ ...now, package: name }, pin ?? old);
  }

  /** Several packages: one command has them all. Only single packages were solved, so the client finds what fits together. */
  function showSeveral(now, names) {
    const others = names.map((name) => ({ ...now, package: name }));
    const problem = others.filter((one) => !isForeign(one)).map(unknown).find(Boolean);
    if (problem) {
      show("unsolved", ...problem);
      return;
    }
    const summary = `Nothing was solved for them together: ${now.client} takes versions that fit together, or says why there are none. To see what one of them gets, name it alone.`;
    show("detected", `One command for ${names.slice(0, -1).join(", ")} and ${names.at(-1)}`, summary);
    const [pin, why] = older(now);
    notice(why);
    showCommand(now, pin);
  }

  function showDetected(now) {
    // Also where the driver is to be chosen: until then the command is this one, and the head says what it does.
    const isAsked = now.machine === "choose";
    if (now.client === "pixi") {
      const step = isAsked ? "choose the CUDA version of the driver" : 'take "choose"';
      show("detected", "pixi finds the driver and the GPU", `From 0.72.2 on. With an older one, or for another machine, ${step}.`);
      showCommand(now);
    } else {
      const step = "To see which CUDA that is, choose the CUDA version of the driver: nvidia-smi shows it as CUDA Version, or CUDA UMD Version.";
      show("detected", `${now.client} finds the driver, and takes the CUDA that fits`, isAsked ? step : "");
      const [pin, why] = older(now);
      notice(why);
      showCommand(now, pin);
    }
  }

  /** Shows the commands for a machine, of which `answer` may be known. */
  function showCommand(now, pin = "", answer = {}) {
    const { lasts = false, nvcc = [] } = answer;
    const pixi = now.client === "pixi";
    const stated = now.driver !== undefined; // pixi looks for the driver when it adds a platform
    const [words, code] = hint(now);
    const isFile = pixi && stated;
    at("save").hidden = at("use").hidden = !isFile;
    at("hint").hidden = pixi || !now.needsCuda;
    const asks = askingIn(now, lasts);
    at("command").textContent = isFile ? manifest(now, asks) : typedCommand(offered.create, asks, now, pin) + thenActivate(now);
    const again = askingAgain(now, answer);
    const keeps = offered.lasts && again.includes(offered.lasts)
      ? `${offered.lasts} keeps the toolkit native. Leave it out if the environment has a compat one: ${pixi ? "pixi" : "conda"} list cuda-version shows which it is.`
      : "";
    at("add-words").textContent = pixi && now.needsCuda && now.driver !== null ? `The workspace must state its driver, as the one above does. ${keeps}`.trim() : keeps;
    at("add").textContent = typedCommand(offered.add, again, { ...now, python: "" }, pixi ? "" : pin);
    at("then").textContent = isFile ? "pixi install\npixi shell" : "";
    at("later").hidden = nvcc.length > 0;
    if (nvcc.length) {
      const command = offered.nvcc[now.client] + nvcc.map(quoted).join(" ");
      at("command").textContent = (onWindows(now) ? command.replaceAll(" \\\n  ", " ") : command) + thenActivate(now);
    }
    at("hint-words").textContent = words;
    at("hint-code").textContent = code;
    at("hint-code").parentElement.hidden = !code;
  }

  function notes(now) {
    const axes = offered.platforms[now.platform];
    const known = axes.packages.includes(now.package);
    at("described").hidden = now.machine !== "choose";
    at("paste-note").hidden = now.machine === "detect"; // what it said of a machine does not count now
    for (const radio of document.querySelectorAll("input[name=first]")) radio.checked = radio.value === now.package;
    at("python").parentElement.hidden = !hasPython(now.package, now.platform);
    at("more-now").textContent = `${now.python ? `Python ${now.python}` : "any Python"}, ${pinWords(now.pin)}`;
    at("gpu-note").classList.toggle("wrong", now.gpu === undefined);
    at("gpu-note").textContent = now.gpu === undefined
      ? "The list has no GPU of that name."
      : now.gpu ? `Compute capability ${now.gpu}` : "With several GPUs, the oldest one counts.";
    const unknown = now.package ? `${noPackage(now)}.` : "Name a package.";
    const isOne = namesIn(now.package).length < 2;
    at("package-note").textContent = !isOne ? "" : known ? offered.notes[now.package] ?? "" : unknown;
  }

  let latest = 0;
  /** Shows the answer for the chosen values. #answer then names them. */
  async function update() {
    const now = chosen();
    const turn = (latest += 1);
    const asked = at("questions").dataset.of = JSON.stringify(now);
    notes(now);
    remember(now);
    const other = otherSystem(now);
    const problem = other ?? (namesIn(now.package).length > 1 ? null : unknown(now));
    const names = namesIn(now.package);
    if (!other && names.length > 1) showSeveral(now, names);
    else if (!other && isForeign(now)) {
      // The package that asks for CUDA has an answer.
      const found = now.driver ? await find({ ...now, package: offered.asks }) : {};
      if (turn !== latest) return;
      if (found.answer && !found.answer.packages) showRefused(now, found.answer);
      else showForeign(now, found);
    } else if (problem) show("unsolved", ...problem);
    else if (now.driver === undefined) {
      showDetected(now);
      const old = older(now)[1] || isOld(now) ? await ofOld(now) : { gets: true };
      const least = await needed(now);
      if (turn !== latest) return;
      if (!old.gets) showNoOld(now, old.elsewhere);
      if (least && !(now.gpu && old.elsewhere)) notice(`${now.package} needs a driver for CUDA ${least} or newer. ${at("unseen").textContent}`.trim());
    } else {
      if (!ready.has(shardOf(now))) show("waiting", "Looking up the answer");
      const { problem: missing, answer, unseen, limits } = await find(now);
      if (turn !== latest) return; // something else was chosen meanwhile
      if (missing) show("unsolved", ...missing);
      else if (answer.packages) {
        answer.packages = await withAsked(now, answer);
        if (turn !== latest) return;
        showPick(now, answer, unseen, limits);
        const old = limits[0] ? await ofOld(now) : { gets: true };
        if (!old.gets && turn === latest) showNoOld(now, old.elsewhere);
      } else showRefused(now, answer);
    }
    at("answer").dataset.of = asked;
  }

  const stepsOf = ({ reasons }) => reasons.flatMap((step) => step.split("\n"));

  function showRefused(now, answer) {
    const title = sentence(answer.title);
    if (answer.nvcc.length) showElsewhere(now, answer);
    else if (canExist(answer)) show("refused", title, "", stepsOf(answer).map(sentence));
    else show("refused", title, "There is no such machine, so nothing was solved for it.", ["Choose another driver or GPU."]);
  }

  /** What works where this channel's nvcc does not: conda-forge's. One message says both. */
  function showElsewhere(now, { title, reasons, nvcc }) {
    const head = "Take nvcc from conda-forge: this channel's does not fit";
    const why = `Why this channel's does not fit: ${title}.`;
    const others = stepsOf({ reasons }).map((step) => `Or ${step}`);
    if (now.client === "pixi") {
      const how = offered.docs ? linked("how pixi takes it from there", "docs/users.html#nvcc-of-cuda-12") : "choose conda or mamba for the command";
      show("detected", head, why, [["conda-forge has nvcc of CUDA 12: ", how, "."], ...others]);
      at("install").hidden = true;
    } else {
      show("detected", head, `The command takes nvcc of CUDA 12 from conda-forge, and the toolkit from this channel. ${why}`, others);
      showCommand(now, "", { nvcc });
    }
    at("verdict").dataset.works = true;
  }

  const TOOLKITS = { cuda: "the whole toolkit with its compiler", "cuda-toolkit": "the whole toolkit with its compiler", "cuda-runtime": "all libraries that programs need at run time", "cuda-libraries": "all libraries that programs need at run time" };
  const OWN = new Set([...COMPONENTS.values(), ...WHEELS.values(), ...OTHERS]);

  const isNotBuilt = (name) => OWN.has(name) && !Object.values(offered.platforms).some(({ packages }) => packages.includes(name));

  /** How the channel gets a package that its recipes make. */
  function howToBuild(name, now) {
    const platform = Object.keys(offered.platforms).length > 1 ? ` --platform ${now.platform}` : "";
    return `The channel's keeper can build it: \`ctk build ${name}${platform}\`, then \`ctk publish\`.`;
  }

  /** What a name is that is no package of this channel. */
  function noPackage(now) {
    const name = now.package.toLowerCase();
    const { packages } = offered.platforms[now.platform];
    if (offered.parts[name]) return `${name} is a part of ${offered.parts[name]}`;
    if (isNotBuilt(name)) return `${name} ${TOOLKITS[name] ? `is ${TOOLKITS[name]}, and ` : ""}is not built in this channel`;
    const [head, [first] = []] = otherName(name) ?? [];
    const component = COMPONENTS.get(name) ?? COMPONENTS.get(name.replace(/^lib/, ""));
    if (head && first && component === first && !packages.includes(first)) return `NVIDIA's ${name} is ${first}, which is not built in this channel`;
    return head ?? `There is no ${now.package} for ${now.platform} in this channel`;
  }

  /** Why a package has no answer, what is here instead, and the next steps. */
  function lackedPackage(now, packages) {
    const name = now.package.toLowerCase();
    const part = offered.parts[name];
    if (part) return [noPackage(now), "", [proposed(name, [part])]];
    if (isNotBuilt(name)) {
      const docs = offered.docs && TOOLKITS[name] ? [" ", linked("What each name has", "docs/names-and-platforms.html#cudatoolkit-cuda-toolkit-cuda-version"), "."] : [];
      return [noPackage(now), "", [[howToBuild(name, now), ...docs], ["The page ", linked("Packages", "packages.html"), " has what is here."]]];
    }
    const near = nearest(name, packages);
    const [, meantBy = [], here = ""] = otherName(name) ?? [];
    const lacking = meantBy.filter((one) => !near.includes(one));
    const isSaid = noPackage(now).endsWith("not built in this channel");
    const step = near.length ? proposed(name, near) : ["The page ", linked("Packages", "packages.html"), A_FILE.test(name) ? " leads to the files of each package." : isSaid ? " has what is here." : " has them all."];
    const lacks = lacking.length && !isSaid ? [`This channel does not have ${lacking.join(" or ")}.`] : [];
    return [noPackage(now), lacking.length || !here ? "" : `${sentence(here)}.`, [step, ...lacks]];
  }

  /** Whether a package is not of this channel, and the next one is known to have it. */
  function isForeign(now) {
    const { packages } = offered.platforms[now.platform];
    const names = namesIn(now.package);
    if (names.length > 1) return names.some((name) => isForeign({ ...now, package: name }));
    return ELSEWHERE.has(meant(now.package)) && !packages.includes(now.package) && !nearest(now.package, packages).length &&
      now.gpu !== undefined && !isTooOld(now) && offered.channels.length > 1;
  }

  const NOT_SOLVED = "There is no answer for this choice";
  const PRINTS = "This command prints it: nvidia-smi --query-gpu=compute_cap --format=csv";

  /** Whether a GPU is older than all that the toolkits compile for. */
  const isTooOld = (now) => now.gpu && offered.platforms[now.platform].gpus.every((gpu) => !gpu || isLess(now.gpu, gpu));

  /** Why a machine, by its paste or its GPU's name, is none of the chosen system; null if it may be one. */
  function otherSystem(now) {
    const platforms = Object.keys(offered.platforms);
    const only = `and this channel is for ${platforms.join(" and ")} only`;
    const lacksDriver = now.machine === "none" && readNvidiaSmi(at("paste").value, offered.gpus, offered.branches).driver === null;
    if (onArm(now) || !(now.machine === "choose" || lacksDriver)) return null;
    if (isArm(at("gpu").value)) {
      if (platforms.some((platform) => onArm({ platform }))) return ["That machine is ARM, and the chosen system is not", "", ["Choose Linux Arm above."]];
      return [`That machine is ARM, ${only}`, "", ["The channel's keeper can build for it: `ctk build --platform linux-aarch64`, then `ctk publish`."]];
    }
    if (!isOfWindows(at("paste").value) || platforms.some((platform) => onWindows({ platform }))) return null;
    return [`That is Windows, ${only}`, "", ["In WSL it is Linux: paste what nvidia-smi prints there."]];
  }

  /** Why there is no answer, with the values that were solved instead; null if there may be an answer. */
  function unknown(now) {
    const axes = offered.platforms[now.platform];
    const wrong = (sentence, values) => [NOT_SOLVED, sentence, [`Choose one of ${values.filter(Boolean).join(", ")}.`]];
    if (isTooOld(now)) return ["This GPU is older than every toolkit of this channel", `None is for compute capability ${now.gpu}. A newer driver does not help.`];
    if (!now.package) return ["Name a package", ""];
    if (!axes.packages.includes(now.package)) {
      return lackedPackage(now, axes.packages);
    }
    if (now.gpu === undefined) {
      return [NOT_SOLVED, "The GPU is not known by that name.", [`Type its compute capability, such as 9.0. ${PRINTS}`, "Or leave the field empty, unless the GPU is older than compute capability 5.0 (Kepler and before): no toolkit here is for it."]];
    }
    if (!axes.gpus.includes(now.gpu)) return wrong(`No answer was made for compute capability ${now.gpu}.`, axes.gpus);
    if (!axes.pythons.includes(now.python)) return wrong(`No answer was made for Python ${now.python}.`, axes.pythons);
    if (!axes.pins.includes(now.pin)) return wrong(`No answer was made for CUDA ${now.pin}.`, axes.pins);
    if (now.driver !== undefined && !axes.drivers.includes(standIn(now.driver, axes))) {
      return wrong(`No answer was made for a driver for CUDA ${now.driver}.`, axes.drivers);
    }
    return null;
  }

  function shardOf(now) {
    const python = hasPython(now.package, now.platform) && now.python;
    return `${now.platform}/${now.package}/${python || "any"}`;
  }

  /** The answer, and the answer for a client that does not see the GPU; or why there is no answer. */
  async function find(now) {
    const axes = offered.platforms[now.platform];
    try {
      const answers = await load(shardOf(now));
      const answer = lookUp(answers, axes, now);
      if (!answer) return { problem: [NOT_SOLVED, "It was not asked when this page was made."] };
      const unseen = now.gpu ? lookUp(answers, axes, { ...now, gpu: null }) : answer;
      return { answer, unseen, limits: now.driver && !now.gpu ? ends(now, answers, axes, answer.toolkit) : [] };
    } catch {
      const step = "Load the page again. If that does not help, the site is not whole and must be made again.";
      return { problem: [NOT_SOLVED, "The file with the answers is not there, or cannot be read.", [step]] };
    }
  }

  // The fields

  /** Fills a row with buttons, and keeps the choice. */
  function buttons(id, values, words) {
    const before = picked(id);
    at(id).replaceChildren(...values.map((value) => button(id, value, words(value))));
    keep(id, before);
  }

  function button(name, value, words) {
    const label = Object.assign(document.createElement("label"), { className: "choice" });
    const radio = Object.assign(document.createElement("input"), { type: "radio", name, value });
    radio.addEventListener("change", () => change(name));
    label.append(radio, Object.assign(document.createElement("span"), { textContent: words }));
    return label;
  }

  /** Chooses a value, and adds it if it is not offered. */
  function keep(name, value) {
    const radios = () => [...document.querySelectorAll(`input[name=${name}]`)];
    if (!radios().some((radio) => radio.value === value)) at(name).append(button(name, value, value));
    radios().find((radio) => radio.value === value).checked = true;
  }

  function change(name) {
    if (name === "first") at("package").value = "";
    if (name === "platform") {
      at("platform-note").textContent = "";
      fill(picked("platform"));
    }
    update();
  }

  const pinWords = (pin) => (!pin ? "the best toolkit" : pin.includes(".") ? `CUDA ${pin}` : `the best of CUDA ${pin}`);
  const SYSTEMS = { "linux-64": "Linux", "linux-aarch64": "Linux Arm", "win-64": "Windows", "win-arm64": "Windows Arm" };
  const system = (platform) => SYSTEMS[platform] ?? platform;

  function fill(platform) {
    const axes = offered.platforms[platform];
    const driver = at("driver").value;
    at("driver").replaceChildren(new Option("not known", ""), ...[...axes.drivers].reverse().filter(Boolean).map((one) => new Option(driverLabel(one, axes), one)));
    if (driver) chooseDriver(driver);
    buttons("python", axes.pythons, (python) => python || "any");
    buttons("pin", axes.pins, (pin) => (pin ? (pin.includes(".") ? pin : `best of ${pin}`) : "best"));
    const first = offered.first.filter((name) => axes.packages.includes(name));
    at("packages").replaceChildren(...[...new Set([...first, ...axes.packages])].map((name) => new Option(name)));
  }

  /** The label of a driver: drivers beyond either end may have the same answers. */
  function driverWords(driver, axes) {
    if (driver === endOf(axes, "newer")) return `${driver} or newer`;
    return driver === endOf(axes, "older") ? `${driver} or older` : driver;
  }

  /** The same with the number of the drivers, as people know theirs: "12.2: driver 535". */
  function driverLabel(driver, axes) {
    const [, branch] = offered.branches.find(([cuda]) => cuda === driver) ?? [];
    return branch ? `${driverWords(driver, axes)}: driver ${branch}` : driverWords(driver, axes);
  }

  /** What a driver supports by its number: at least that, where the list does not have its branch yet. */
  function supports({ release, driver }) {
    const [[, newest]] = offered.branches;
    if (Number(release) < newest + 5) return `Driver ${release} supports CUDA ${driver}.`;
    return `Driver ${release} supports CUDA ${driver} at least; nvidia-smi shows which CUDA Version it is.`;
  }

  /** The driver that stands for all drivers beyond it; undefined if a rule tells them apart. */
  function endOf(axes, end) {
    const drivers = axes.drivers.filter(Boolean);
    return axes[end] ? drivers.at(end === "newer" ? -1 : 0) : undefined;
  }

  /** "older" or "newer" for a driver beyond either end, else undefined. */
  function beyond(driver, drivers) {
    if (isLess(driver, drivers[0])) return "older";
    return isLess(drivers.at(-1), driver) ? "newer" : undefined;
  }

  /** The driver that has the answers for a driver: itself, or an end beyond which they are the same. */
  function standIn(driver, axes) {
    const end = /^\d+\.\d+$/.test(driver) && endOf(axes, beyond(driver, axes.drivers.filter(Boolean)));
    return axes.drivers.includes(driver) ? driver : end || driver;
  }

  /** Chooses a driver, and adds it if it is not offered. */
  function chooseDriver(driver) {
    const select = at("driver");
    if (![...select.options].some(({ value }) => value === driver)) select.append(new Option(driver, driver));
    select.value = driver;
  }

  let strange = ""; // the pasted name of a GPU that the list does not have

  /** A paste describes the whole machine, so it replaces earlier values. */
  function paste() {
    const text = at("paste").value;
    const note = at("paste-note");
    const found = text.trim() ? readNvidiaSmi(text, offered.gpus, offered.branches) : { gpus: [], unknown: [], note: "" };
    const ordered = [...new Set(found.gpus)].sort((one, other) => (isLess(one, other) ? -1 : 1));
    const said = found.note ? [found.note] : [];
    const is = found.arm ? onArm : isOfWindows(text) && onWindows;
    const platform = is && Object.keys(offered.platforms).find((name) => is({ platform: name }));
    if (platform && !is({ platform: picked("platform") })) {
      keep("platform", platform);
      fill(platform);
    }
    const floor = offered.platforms[picked("platform")].floor;
    const old = floor && ordered[0] && isLess(ordered[0], floor[0]); // then the others do not matter
    strange = old ? "" : found.unknown.join(", ");
    if (found.driver !== undefined || !text.includes("compute_cap")) at("driver").value = ""; // which tells nothing of it
    at("gpu").value = found.arm ?? (found.unknown.length && !old ? "" : ordered[0] ?? "");
    if (found.driver) {
      chooseDriver(found.driver);
      said.push(found.release ? supports(found) : `The driver supports CUDA ${found.driver}.`);
    } else if (!at("driver").value && (ordered.length || found.unknown.length)) said.push("The driver's CUDA version is not in it: choose it below.");
    if (found.driver && !ordered.length && !found.unknown.length) said.push("It names no GPU: type it below.");
    if (found.unknown.length) said.push(`The list does not have ${found.unknown.join(", ")}: ${old ? `GPU ${ordered[0]} counts, unless that is older.` : `type the compute capability below. ${PRINTS}`}`);
    else if (ordered.length > 1) said.push(`The GPUs have compute capability ${ordered.join(" and ")}; the oldest one counts.`);
    else if (ordered.length) said.push(`The GPU has compute capability ${ordered[0]}.`);
    note.classList.toggle("wrong", Boolean(found.wrong));
    note.textContent = said.join(" ");
    keep("machine", found.driver === null ? "none" : "choose");
    update();
  }

  // The URL has the choices, so that it can be sent to somebody.

  function remember(now) {
    const driver = now.machine === "none" ? "none" : now.driver ?? (now.machine === "choose" ? "choose" : "");
    const values = { client: now.client === usualClient ? "" : now.client, package: now.package, platform: now.platform, driver, gpu: now.machine === "choose" ? at("gpu").value.trim() : "", python: now.python, pin: now.pin };
    const kept = Object.entries(values).filter(([, value]) => value);
    try {
      history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
    } catch {
      // some browsers refuse it for a page in a folder
    }
  }

  function recall() {
    const wanted = new URLSearchParams(location.hash.slice(1) || location.search);
    const client = [...document.querySelectorAll("input[name=client]")].find(({ value }) => value === wanted.get("client"));
    if (client) client.checked = true;
    const platforms = Object.keys(offered.platforms);
    const here = /Windows/.test(navigator.userAgent) ? "win-" : "linux-";
    const asked = wanted.get("platform");
    keep("platform", platforms.includes(asked) ? asked : platforms.find((name) => name.startsWith(here)) ?? platforms[0]);
    const isThere = !asked || platforms.includes(asked);
    at("platform-note").textContent = isThere ? "" : `There is nothing for ${asked} here, so ${system(picked("platform"))} is chosen.`;
    fill(picked("platform"));
    const name = wanted.get("package") ?? offered.first[0];
    at("package").value = offered.first.includes(name) ? "" : name;
    if (offered.first.includes(name)) keep("first", name);
    at("gpu").value = wanted.get("gpu") ?? "";
    const driver = wanted.get("driver") ?? "";
    if (!["", "none", "choose"].includes(driver)) chooseDriver(driver);
    keep("machine", driver === "none" ? "none" : driver || at("gpu").value ? "choose" : "detect");
    for (const [id, form] of [["python", /^\d+\.\d+t?$/], ["pin", /^\d+(\.\d+)?$/]]) {
      const value = wanted.get(id) ?? "";
      if (!value || form.test(value)) keep(id, value);
    }
  }

  at("first").replaceChildren(...offered.first.map((name) => button("first", name, name)));
  at("platform").replaceChildren(...Object.keys(offered.platforms).map((name) => button("platform", name, system(name))));
  at("gpus").replaceChildren(...Object.keys(offered.gpus).map((name) => new Option(`compute capability ${offered.gpus[name]}`, name)));
  recall();
  at("questions").addEventListener("submit", (event) => event.preventDefault());
  at("paste").addEventListener("input", paste);
  for (const [id, kind] of [["driver", "input"], ["package", "input"], ["gpu", "change"]]) at(id).addEventListener(kind, update);
  // While a name is typed it is not a name yet: "50" may become "5090". What is whole counts at once, else at the end.
  at("gpu").addEventListener("input", () => {
    const text = at("gpu").value.trim();
    if (!text || (!/^\d{1,3}$/.test(text) && gpuOfText(text, offered.gpus))) update();
    else at("gpu-note").textContent = "";
  });
  for (const radio of document.querySelectorAll("#client input, #machine input")) radio.addEventListener("change", update);
  // The link to the content changes the URL too, without a choice.
  window.addEventListener("hashchange", () => { if (location.hash.includes("=")) { recall(); update(); } });
  at("selector").hidden = false;
  update();
})();
