// The front page: takes what was chosen, looks the answer up, and shows it. Every answer is what a solver said when the
// site was made; a combination that was not solved has none.
"use strict";
(() => {
  const offered = JSON.parse(document.getElementById("offered").textContent);
  const at = (id) => document.getElementById(id);
  const shards = new Map(); // name -> promise of the answers
  const arrived = new Map(); // name -> what to call when its script has run
  const ready = new Set(); // names of those that have
  const NO_DRIVER = "none";

  window.ctkAnswers = (name, content) => arrived.get(name)?.(content);

  /** The answers about one package with one Python, loaded once. A script, as a page in a folder may not fetch. */
  function load(name) {
    if (!shards.has(name)) {
      shards.set(name, new Promise((resolve, reject) => {
        arrived.set(name, (content) => { ready.add(name); resolve(content); });
        const script = document.createElement("script");
        script.src = `answers/${name}.js`;
        // A file that was cut short loads, and answers nothing.
        script.onload = script.onerror = () => {
          if (!ready.has(name)) { shards.delete(name); reject(new Error(name)); }
        };
        document.head.append(script);
      }));
    }
    return shards.get(name);
  }

  /** One answer of those that were loaded; null where it was not solved. */
  function lookUp(answers, axes, { driver, gpu, pin }) {
    const row = answers.rows[answers.grid[pin]?.[axes.drivers.indexOf(driver)]];
    let left = axes.gpus.indexOf(gpu);
    if (!row || left < 0) return null;
    for (let place = 0; place < row.length; place += 2) {
      if (left < row[place + 1]) return readAnswer(answers, row[place]);
      left -= row[place + 1];
    }
    return null;
  }

  function readAnswer(answers, place) {
    const [pick, toolkit, fit, title, reasons] = answers.answers[place];
    const line = (of) => answers.lines[of].map((part) => answers.texts[part]).join(" ");
    const packages = pick < 0 ? null : answers.picks[pick].map((record) => answers.records[record]);
    return { packages, toolkit, fit, title: line(title), reasons: reasons.map(line) };
  }

  /** What is chosen now; gpu is undefined where what was typed is no GPU. */
  function chosen() {
    const driver = at("driver").value === NO_DRIVER ? null : at("driver").value;
    const typed = at("gpu").value.trim();
    const gpu = typed && driver ? gpuOfText(typed, offered.gpus) ?? undefined : null;
    return {
      platform: at("platform").value,
      package: at("package").value.trim(),
      python: at("python").value,
      pin: at("pin").value,
      driver,
      gpu,
    };
  }

  // What to type

  const request = (now) => [now.package, ...offered.pins[now.pin].specs, ...offered.pythons[now.python].specs];
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `"${word}"`);

  function createCommand(client, now) {
    const channels = offered.channels.flatMap((channel) => ["--channel", quoted(channel)]);
    // The driver is asked for, too: conda and mamba could drop it otherwise, and install what it cannot run.
    const specs = [...request(now), ...(now.driver ? ["__cuda"] : [])].map(quoted);
    return [client, "create", "--name", "cuda", ...specs, ...channels, "--override-channels", "--strict-channel-priority"].join(" ");
  }

  function manifest(now) {
    const text = (value) => JSON.stringify(value);
    const list = (name, items) => [`${name} = [`, ...items.map((item) => `  ${item},`), "]"];
    const machine = now.driver
      ? `{ platform = ${text(now.platform)}, cuda = { driver = ${text(now.driver)}${now.gpu ? `, arch = ${text(now.gpu)}` : ""} } }`
      : text(now.platform);
    return [
      "[workspace]",
      'name = "cuda"',
      ...list("channels", offered.channels.map(text)),
      ...list("platforms", [machine]),
      "",
      "[dependencies]",
      ...(now.package === "cuda-version" && now.pin ? [] : [`${now.package} = "*"`]),
      ...offered.pins[now.pin].lines,
      ...offered.pythons[now.python].lines,
    ].join("\n");
  }

  function solveCommand(now) {
    const words = ["ctk solve", now.package, ...(now.pin ? [`cuda-version=${now.pin}`] : [])];
    if (now.python) words.push(`--python ${now.python}`);
    words.push(`--platform ${now.platform} --driver ${now.driver ?? NO_DRIVER}`);
    if (now.gpu) words.push(`--arch ${now.gpu}`);
    if (offered.base !== "local") words.push(`--base ${quoted(offered.base)}`);
    return `${words.join(" ")} --explain${offered.planned ? " --planned" : ""}`;
  }

  /** For a client on another machine than the one that was described. */
  function overrides(now) {
    const words = [`CONDA_SUBDIR=${now.platform}`, `CONDA_OVERRIDE_CUDA=${now.driver ?? '""'}`];
    if (now.gpu) words.push(`CONDA_OVERRIDE_CUDA_ARCH=${now.gpu}`);
    return words.join(" ");
  }

  // What is shown

  /** A sentence with a capital, unless it begins with the name of a package. */
  const sentence = (text) => text.replace(/^[a-z]+(?=[ ,:;])/, (word) =>
    Object.values(offered.platforms).some((axes) => axes.packages.includes(word)) ? word : word[0].toUpperCase() + word.slice(1));

  function size(bytes) {
    const units = ["B", "kB", "MB", "GB"];
    let place = 0;
    while (bytes >= 999.5 && place < 3) { bytes /= 1000; place += 1; }
    return `${place ? Number(bytes.toPrecision(3)) : bytes} ${units[place]}`;
  }

  function show(state, title, summary = "") {
    at("answer").dataset.state = state;
    at("title").textContent = title;
    at("summary").textContent = summary;
    for (const id of ["install", "pick", "reasons"]) at(id).hidden = state !== "solved";
    at("steps").hidden = true;
  }

  function fillList(list, lines) {
    list.replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
  }

  function steps(lines) {
    fillList(at("todo"), lines);
    at("steps").hidden = !lines.length;
  }

  /** A line for each toolkit, of which one was picked. */
  function reasons({ toolkit, reasons: lines }) {
    at("picked").textContent = lines.find((line) => line.startsWith(`${toolkit} is picked`)) ?? lines[0];
    fillList(at("why"), lines);
    at("toolkits").hidden = lines.length < 2;
    at("toolkits").open = lines.length < 5;
    at("toolkits-title").textContent = `Toolkit by toolkit: ${lines.length}`;
  }

  function unsolved(why, lines = []) {
    show("unsolved", "This combination was not solved", why);
    steps(lines);
  }

  function showPick(now, answer) {
    const known = answer.packages.every(([, , , bytes]) => bytes > 0);
    const total = answer.packages.reduce((sum, [, , , bytes]) => sum + bytes, 0);
    const download = known ? `${size(total)} to download` : "their size is known when they are built";
    const number = `${answer.packages.length} package${answer.packages.length === 1 ? "" : "s"}`;
    const gpu = !now.driver ? "no driver" : `driver for CUDA ${driverWords(now.driver, offered.platforms[now.platform])}, ${now.gpu ? `GPU ${now.gpu}` : "GPU not detected"}`;
    const title = sentence(answer.title);
    show("solved", title, `${now.package} on ${now.platform}, ${gpu}: ${number}, ${download}`);
    at("pick-title").textContent = `What is installed: ${number}, ${download}`;
    at("packages-picked").replaceChildren(...answer.packages.map(([name, version, build, bytes, channel]) => {
      const row = document.createElement("tr");
      const cells = [name, version, build, channel, bytes ? size(bytes) : ""];
      cells.forEach((text, place) => {
        const cell = document.createElement(place ? "td" : "th");
        cell.textContent = text;
        if (!place) cell.scope = "row";
        if (place === 4) cell.className = "number";
        row.append(cell);
      });
      return row;
    }));
    reasons(answer);
  }

  /** A client that does not look at the GPU answers as for one that is not detected: that answer is at hand too. */
  function showUnseen(now, answer, unseen, client) {
    const differs = client !== "pixi" && now.gpu && unseen?.toolkit !== answer.toolkit;
    at("unseen").hidden = !differs;
    if (differs) {
      const instead = unseen?.toolkit ? `would take toolkit ${unseen.toolkit}` : "would find nothing";
      at("unseen").textContent = `A ${client} that does not detect the GPU ${instead}. Add cuda-version=${answer.toolkit} to be sure.`;
    }
  }

  function showCommand(now, answer, unseen) {
    const client = document.querySelector("input[name=client]:checked").value;
    at("manifest-box").hidden = client !== "pixi";
    at("manifest").textContent = manifest(now);
    at("command").textContent = client === "pixi" ? "pixi install" : createCommand(client, now);
    at("elsewhere").hidden = client === "pixi";
    at("overrides").textContent = overrides(now);
    at("copied").textContent = "";
    showUnseen(now, answer, unseen, client);
  }

  function notes(now) {
    const gpu = at("gpu-note");
    const typed = at("gpu").value.trim();
    gpu.classList.toggle("wrong", now.gpu === undefined);
    if (!now.driver) gpu.textContent = "Without a driver no client sees a GPU.";
    else if (!typed) gpu.textContent = "Empty: not detected. With several, the oldest.";
    else if (now.gpu === undefined) gpu.textContent = `No GPU of that name is in the list. Type its compute capability, such as 9.0; nvidia-smi --query-gpu=compute_cap --format=csv shows it.`;
    else gpu.textContent = `Compute capability ${now.gpu}`;
    const axes = offered.platforms[now.platform];
    const known = axes.packages.includes(now.package);
    at("package-note").classList.toggle("wrong", !known);
    at("package-note").textContent = known ? "" : now.package ? `No package of that name was solved for ${now.platform}.` : "Name a package.";
  }

  let latest = 0;
  /** Shows the answer for what is chosen now. #answer then says of which command it is. */
  async function update() {
    const now = chosen();
    const turn = (latest += 1);
    const command = solveCommand({ ...now, gpu: now.gpu ?? null });
    notes(now);
    remember(now);
    at("solve").textContent = command;
    const problem = unknown(now);
    if (!problem && !ready.has(shardOf(now))) show("waiting", "Looking up the answer");
    const found = problem ?? (await find(now));
    if (turn !== latest) return; // something else was chosen meanwhile
    if (found.problem) unsolved(...found.problem);
    else if (found.answer.packages) {
      showPick(now, found.answer);
      showCommand(now, found.answer, found.unseen);
    } else {
      const { title, reasons: next } = found.answer;
      // Without a next step nobody asked: such a machine cannot exist.
      show("refused", sentence(title), next.length ? "A solver finds nothing for this request on this machine." : "So no solver was asked.");
      steps(next.map(sentence));
    }
    at("answer").dataset.of = command;
  }

  /** Why there can be no answer, with what was solved instead; null where there can be one. */
  function unknown(now) {
    const axes = offered.platforms[now.platform];
    const solved = (values) => [`Solved are ${values.filter(Boolean).join(", ")}.`];
    if (!now.package) return { problem: ["Name a package.", solved(axes.packages)] };
    if (!axes.packages.includes(now.package)) {
      return { problem: [`${now.package} is not among the packages that were solved for ${now.platform}.`, solved(axes.packages)] };
    }
    if (now.gpu === undefined) {
      return { problem: ["The GPU is not known by that name.", ["Type its compute capability, such as 9.0, or leave the field empty."]] };
    }
    if (!axes.gpus.includes(now.gpu)) return { problem: [`No machine with compute capability ${now.gpu} was solved.`, solved(axes.gpus)] };
    if (!axes.pythons.includes(now.python)) return { problem: [`Python ${now.python} was not solved.`, solved(axes.pythons)] };
    if (!axes.pins.includes(now.pin)) return { problem: [`Toolkit ${now.pin} was not solved.`, solved(axes.pins)] };
    if (!axes.drivers.includes(now.driver)) {
      return { problem: [`No machine with a driver for CUDA ${now.driver} was solved.`, solved(axes.drivers)] };
    }
    return null;
  }

  const shardOf = (now) => `${now.platform}/${now.package}/${now.python || "any"}`;

  /** The answer, and that for a client which does not see the GPU; or why there is none. */
  async function find(now) {
    const axes = offered.platforms[now.platform];
    try {
      const answers = await load(shardOf(now));
      const answer = lookUp(answers, axes, now);
      if (!answer) return { problem: [`${solveCommand(now)} was not asked when this page was made.`] };
      return { answer, unseen: now.gpu ? lookUp(answers, axes, { ...now, gpu: null }) : answer };
    } catch {
      const step = "Load the page again; if that does not help, the site is not whole and must be made again.";
      return { problem: ["The file with the answers is not there, or cannot be read.", [step]] };
    }
  }

  // The fields

  function options(select, values, words) {
    const before = select.value;
    select.replaceChildren(...values.map((value) => new Option(words(value), value ?? NO_DRIVER)));
    if (before) keep(select, before);
  }

  function fill(platform) {
    const axes = offered.platforms[platform];
    options(at("driver"), [...axes.drivers].reverse(), (driver) => driverWords(driver, axes));
    options(at("python"), axes.pythons, (python) => python || "any, the solver's choice");
    options(at("pin"), axes.pins, (pin) => (pin ? (pin.includes(".") ? `exactly ${pin}` : `the best of CUDA ${pin}`) : "the best for the machine"));
    at("packages").replaceChildren(...axes.packages.map((name) => new Option(name)));
  }

  /** The driver as it is offered: those beyond either end may be one question with it. */
  function driverWords(driver, axes) {
    if (driver === null) return "no driver";
    if (driver === endOf(axes, "newer")) return `${driver} or newer`;
    return driver === endOf(axes, "older") ? `${driver} or older` : driver;
  }

  /** The driver that stands for all beyond it; undefined where a rule tells them apart. */
  function endOf(axes, end) {
    const drivers = axes.drivers.filter(Boolean);
    return axes[end] ? drivers.at(end === "newer" ? -1 : 0) : undefined;
  }

  /** Which end a driver is beyond: "older", "newer", or undefined. */
  function beyond(driver, drivers) {
    const parts = (text) => text.split(".").map(Number);
    const less = ([one, two], [other, last]) => one < other || (one === other && two < last);
    if (less(parts(driver), parts(drivers[0]))) return "older";
    return less(parts(drivers.at(-1)), parts(driver)) ? "newer" : undefined;
  }

  function choose(select, value) {
    const found = [...select.options].some((option) => option.value === value);
    if (found) select.value = value;
    return found;
  }

  /** Chooses a value. One that was not solved is offered, and said not to be: another one would be another question. */
  function keep(select, value) {
    if (!choose(select, value)) {
      select.prepend(new Option(`${value} (not solved)`, value));
      select.value = value;
    }
  }

  /** Takes a driver, and returns the one that answers for it. One that none answers for is offered, and said not to be
   * solved. */
  function chooseDriver(driver) {
    const axes = offered.platforms[at("platform").value];
    if (choose(at("driver"), driver)) return driver;
    const end = /^\d+\.\d+$/.test(driver) && endOf(axes, beyond(driver, axes.drivers.filter(Boolean)));
    if (end) {
      at("driver").value = end;
      return end;
    }
    keep(at("driver"), driver);
    return driver;
  }

  function paste() {
    const text = at("paste").value;
    const note = at("paste-note");
    note.classList.remove("wrong");
    if (!text.trim()) {
      note.textContent = "Nothing of it leaves this page.";
      return;
    }
    const found = readNvidiaSmi(text, offered.gpus);
    note.classList.toggle("wrong", Boolean(found.wrong));
    if (found.wrong) {
      note.textContent = found.note;
      return;
    }
    const said = found.note ? [found.note] : [];
    if (found.driver !== undefined) {
      const taken = chooseDriver(found.driver ?? NO_DRIVER);
      const same = taken === found.driver ? "" : `: no package here tells it from ${taken}`;
      if (found.driver) said.push(`The driver supports CUDA ${found.driver}${same}.`);
    } else said.push("The driver's CUDA version is not in it: choose it below.");
    const ordered = [...new Set(found.gpus)].sort((one, other) => one - other);
    if (found.driver !== null) at("gpu").value = found.unknown.length ? "" : ordered[0] ?? "";
    if (found.unknown.length) said.push(`The list does not have ${found.unknown.join(", ")}: type the compute capability below.`);
    else if (ordered.length > 1) said.push(`The GPUs have compute capability ${ordered.join(" and ")}; the oldest one counts.`);
    else if (ordered.length) said.push(`The GPU has compute capability ${ordered[0]}.`);
    note.textContent = said.join(" ");
    update();
  }

  // The address has what is chosen, so that it can be sent to somebody.

  function remember(now) {
    const values = { package: now.package, platform: now.platform, driver: now.driver ?? NO_DRIVER, gpu: at("gpu").value.trim(), python: now.python, pin: now.pin };
    const kept = Object.entries(values).filter(([, value]) => value);
    try {
      history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
    } catch {
      // some browsers refuse it for a page in a folder
    }
  }

  function recall() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const platforms = Object.keys(offered.platforms);
    const here = /Windows/.test(navigator.userAgent) ? "win-" : "linux-";
    options(at("platform"), platforms, String);
    choose(at("platform"), wanted.get("platform") ?? platforms.find((name) => name.startsWith(here)) ?? platforms[0]);
    fill(at("platform").value);
    at("package").value = wanted.get("package") ?? offered.first;
    at("gpu").value = wanted.get("gpu") ?? "";
    if (wanted.get("driver")) chooseDriver(wanted.get("driver"));
    for (const [id, form] of [["python", /^\d+\.\d+t?$/], ["pin", /^\d+(\.\d+)?$/]]) {
      const value = wanted.get(id) ?? "";
      if (!value || form.test(value)) keep(at(id), value);
    }
  }

  async function copy(button) {
    const source = at(button.dataset.of);
    try {
      await navigator.clipboard.writeText(source.textContent);
      at("copied").textContent = "Copied";
    } catch {
      // A page in a folder may not reach the clipboard: the text is selected, so that the keys for copying take it.
      getSelection().selectAllChildren(source);
      at("copied").textContent = "Selected: press the keys for copying";
    }
    button.textContent = at("copied").textContent.split(":")[0];
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  recall();
  at("gpus").replaceChildren(...Object.keys(offered.gpus).map((name) => new Option(`compute capability ${offered.gpus[name]}`, name)));
  at("questions").addEventListener("submit", (event) => event.preventDefault());
  at("platform").addEventListener("change", () => fill(at("platform").value));
  at("paste").addEventListener("input", paste);
  for (const id of ["driver", "gpu", "platform", "package", "python", "pin"]) {
    at(id).addEventListener(at(id).tagName === "SELECT" ? "change" : "input", update);
  }
  for (const radio of document.querySelectorAll("input[name=client]")) radio.addEventListener("change", update);
  for (const button of document.querySelectorAll("button[data-of]")) button.addEventListener("click", () => copy(button));
  // The link to the content changes the address too, and chooses nothing.
  window.addEventListener("hashchange", () => { if (location.hash.includes("=")) { recall(); update(); } });
  at("selector").hidden = false;
  update();
})();
