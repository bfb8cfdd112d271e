// Reads the output of nvidia-smi, and names of GPUs: the CUDA version of the driver, and the compute capability.
// No page solves anything: all answers were solved when the site was made.
"use strict";

/** The compute capability of a name such as "NVIDIA H100 80GB HBM3"; null if the list has no such GPU.
 *
 * A name that nvidia-smi cut short ("GeForce RTX 5070 ...") counts where all that it may be have the same one.
 */
function gpuOfName(text, listed) {
  const bare = (name) => name.trim().toLowerCase().replace(/\s*\(nvgpu\)$/, "").replace(/^nvidia\s+/, "").replace(/^(tesla\s+)?(?:(k\d0)x?[a-z]?$)?/, "$2"); // K40m
  let wanted = bare(text);
  if (!wanted) return null;
  const names = Object.keys(listed).map((name) => [bare(name), listed[name]]);
  const cut = wanted.match(/^(.+?)\s*\.\.\.$/);
  if (cut) {
    const found = new Set(names.filter(([name]) => name.startsWith(cut[1])).map(([, gpu]) => gpu));
    if (found.size) return found.size === 1 ? [...found][0] : null;
    wanted = cut[1]; // longer than the list has it: "A100-SXM..."
  }
  const short = (name) => name.replace(/^(geforce|quadro)\s+/, "");
  let best = ["", null];
  for (const [name, gpu] of names) {
    for (const form of [name, short(name)]) {
      const next = wanted.charAt(form.length);
      // "RTX 3000 Ada" is not a Quadro RTX 3000.
      if (/^\s+(ada|blackwell)\b/.test(wanted.slice(form.length))) continue;
      if (form.length > best[0].length && wanted.startsWith(form) && /^$|[\s,(-]/.test(next)) best = [form, gpu];
    }
  }
  return best[1];
}

/** The compute capability of a typed text: 9.0, sm_90, 90, or a name; null if it is unknown.
 *
 * A part of a name ("4090", "h 100", "Orin") counts where all that it may be have the same one.
 */
function gpuOfText(text, listed) {
  const number = text.trim().toLowerCase().replace(",", ".").match(/^(?:(\d{1,2})\.(\d)|(?:sm_?|compute_?)?([3-9]|\d\d)(\d))[af]?$/);
  if (number) return `${Number(number[1] ?? number[3])}.${number[2] ?? number[4]}`;
  const [plain, wanted] = [(name) => name.toLowerCase().replace(/[^a-z0-9]/g, ""), text.toLowerCase().replace(/\(nvgpu\)|[^a-z0-9]|geforce|nvidia/g, "")];
  // The name of an architecture is in few names of its GPUs.
  const isName = wanted.length > 2 && !/^(ada|blackwell)$/.test(wanted);
  const parts = Object.keys(listed).filter((name) => isName && plain(name).replace("geforce", "").includes(wanted));
  const found = new Set(parts.map((name) => listed[name]));
  return gpuOfName(text, listed) ?? (found.size === 1 ? [...found][0] : null);
}

/** Whether a GPU is in ARM machines only; solve/gpus.yaml has the sources. */
const isArm = (name) => /\b(jetson|tegra|nvgpu|xavier|orin|thor|gh\d+|gb\d+)\b/i.test(name);

/** Whether a text is of a driver of Windows, or of a shell of Windows that found none. */
const isOfWindows = (text) => /\b(WDDM|TCC|MCDM)\b|nvidia-smi(\.exe)?['"]? is not recognized/i.test(text);

/** The lines of --query-gpu with --format=csv, as lists of fields. */
const fieldsOf = (text) => text.split(/\r?\n/).filter((line) => !line.includes("|")).map((line) => line.split(",").map((field) => field.trim()));

const isCapability = (field) => /^\d{1,2}\.\d$/.test(field ?? "");

/** The column compute_cap in the output of --query-gpu; without a heading, the field of such a form. */
function capabilities(text) {
  const lines = fieldsOf(text);
  const head = lines.findIndex((fields) => fields.some((field) => field.endsWith("compute_cap")));
  if (head >= 0) {
    const place = lines[head].findIndex((field) => field.endsWith("compute_cap"));
    return lines.slice(head + 1).map((fields) => fields[place]).filter(isCapability);
  }
  const isRow = (fields) => isCapability(fields[0]) ? fields.length === 1 : fields.some(isGpuName);
  return lines.filter(isRow).flatMap((fields) => fields.filter(isCapability).slice(0, 1));
}

/** Whether a field of --query-gpu is the name of a GPU. */
const isGpuName = (field) => /^(NVIDIA|GeForce|Quadro|Tesla) [\w(]/i.test(field);

/** The names of GPUs in the output of --query-gpu, which has another field beside the name. */
const namesInFields = (text) => fieldsOf(text).filter((fields) => fields.length > 1).flatMap((fields) => fields.filter(isGpuName).slice(0, 1));

/** The number of a driver, such as 535.183.01, where a text is that alone or has it beside other fields; else undefined. */
function releaseOf(text) {
  const alone = text.trim().match(/^(?:nvidia\s*)?(?:driver)?(?:\s*version)?[\s:-]*r?([3-9]\d\d)(?:\.\d+|\.x)*$/i);
  const said = text.match(/driver version\s*:\s*([3-9]\d\d)\b/i);
  const field = fieldsOf(text).flat().find((one) => /^[3-9]\d\d\.\d+(\.\d+)?$/.test(one));
  return (alone ?? said)?.[1] ?? field?.split(".")[0];
}

/** The CUDA version that a driver supports by its number, or at least supports; undefined for one older than the list. */
const cudaOfRelease = (release, branches) => branches.find(([, branch]) => branch <= Number(release))?.[0];

/** The machine that the output of nvidia-smi describes.
 *
 * A driver's number, and a CUDA version that is called so, describe a driver too.
 * Returns {driver, release, gpus, unknown, note}: the CUDA version (null: no driver; undefined: it does not say), the compute
 * capabilities, the names that the list does not have, and a sentence for the reader. `wrong` where it is no such output,
 * and `arm`, the name of a GPU that only ARM machines have.
 */
function readNvidiaSmi(text, listed, branches) {
  if (/nvidia-smi has failed|couldn't communicate with the nvidia driver/i.test(text)) {
    const note = "nvidia-smi reached no driver, so none is chosen. If that machine has a GPU, restart it or mend its driver, then paste again.";
    return { driver: null, gpus: [], unknown: [], note };
  }
  if (/nvidia-smi.{0,80}(not found|not recognized)|(not found|unknown command):\s*nvidia-smi/is.test(text)) {
    return { driver: null, gpus: [], unknown: [], note: "There is no nvidia-smi on that machine, so no driver is chosen. On a login node, run it on a node with a GPU." };
  }
  if (/failed to initialize nvml|driver\/library version mismatch/i.test(text)) {
    const note = "nvidia-smi and the driver do not fit together: restart that machine, then paste again, or choose below.";
    return { gpus: [], unknown: [], note, wrong: true };
  }
  if (/^\s*no devices were found/im.test(text)) {
    const note = "The driver sees no GPU there, and nvidia-smi then does not say which CUDA it supports: choose below.";
    return { gpus: [], unknown: [], note, wrong: true };
  }
  const version = text.match(/CUDA(?:\s+UMD)?\s+Version\s*:\s*(\d+)\.(\d+)/i) ?? text.trim().match(/^CUDA\s*(\d+)\.(\d+)$/i);
  const names = [
    // The bus follows the name, or that it has none and the display; rows of processes look the same otherwise.
    // A chat or an issue may have indented or quoted it, taken the bars away, or made one line of it.
    ...text.matchAll(/(?:^[\s>]*|\|\s*)\d+\s+([^|\s][^|\n]*?)\s+(?:On|Off|N\/A|WDDM|TCC|MCDM)\s*\|?(?=\s*(?:[0-9A-F]{4,8}:|N\/A\s+(?:On|Off|N\/A)\b))/gim),
    ...text.matchAll(/^\s*GPU \d+: (.+?) \(UUID/gm),
    ...text.matchAll(/^\s*Product Name\s*:\s*(.+?)\s*$/gm),
  ].map((match) => match[1]).concat(namesInFields(text));
  const gpus = [];
  const unknown = [];
  gpus.push(...capabilities(text));
  for (const name of gpus.length ? [] : new Set(names)) {
    const gpu = isArm(name) ? gpuOfText(name, listed) : gpuOfName(name, listed); // "Orin" is a part of a name
    if (gpu) gpus.push(gpu);
    else unknown.push(name);
  }
  const arm = names.find(isArm);
  const release = version || arm ? undefined : releaseOf(text); // drivers of Jetson have other numbers
  const driver = version ? `${Number(version[1])}.${Number(version[2])}` : release && cudaOfRelease(release, branches);
  if (driver === undefined && !gpus.length && !unknown.length) {
    const note = /nvidia-smi/i.test(text)
      ? "This names no CUDA version. Paste all that nvidia-smi prints, from its first line on."
      : "This is not what nvidia-smi prints: there is no CUDA version and no GPU in it. Choose below instead.";
    return { driver, gpus, unknown, note, wrong: true };
  }
  return { driver, release, gpus, unknown, note: "", arm };
}
