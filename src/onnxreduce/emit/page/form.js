// The settings: filled with those of the measured run, changed by the reader.

import { byId, make } from './elements.js';
import { BUNDLES, ChosenPackage, ServedPackage, SetupError } from './packages.js';

const PROVIDERS = ['wasm', 'webgpu', 'webnn'];
const LEVELS = ['', 'disabled', 'basic', 'extended', 'layout', 'all'];
const RECORDED = 'recorded';
const NEAR = './node_modules/onnxruntime-web/dist/';
const FROM_FILE = location.protocol === 'file:';

/**
 * @typedef {object} Side How one side is run; `null` stands for the outputs that onnxreduce recorded.
 * @property {ServedPackage | ChosenPackage} source
 * @property {string} bundle
 * @property {{name: string}} provider with its options
 * @property {object} session its options
 * @property {number} runs in one session
 */

export class Form {
  /** @param {object} facts */
  constructor(facts) {
    this.facts = facts;
    /** @type {Map<string, ServedPackage>} by address, so that what was fetched once is kept */
    this.served = new Map();
    /** @type {Map<FileList, ChosenPackage>} */
    this.chosen = new Map();
    this.package = place('package-slot', 'package', 'package');
    this.other = place('other-slot', 'package', 'reference-package');
    this.suspect = place('suspect-slot', 'side', 'suspect');
    this.reference = place('reference-slot', 'side', 'reference');
    for (const part of [this.package, this.other]) usePackage(part);
    fillSide(this.suspect, facts.suspect);
    fillSide(this.reference, facts.reference);
    const wanted = new URL(location.href).searchParams.get('package');
    this.package.address.value = wanted ?? (FROM_FILE ? '' : NEAR);
    this.package[FROM_FILE && wanted === null ? 'by-folder' : 'by-address'].checked = true;
    this.other['by-address'].checked = true;
    byId('other').open = this.twoVersions();
  }

  twoVersions() {
    const { suspect, reference } = this.facts;
    return Boolean(reference.version) && reference.version !== suspect.version;
  }

  /** @returns {{suspect: Side, reference: Side | null, limit: number}} or throws a SetupError */
  read() {
    const source = this.source(this.package);
    if (!source) throw new SetupError('give the address of the package onnxruntime-web, or choose its folder');
    const recorded = this.reference.provider.value === RECORDED;
    const other = recorded ? source : this.source(this.other);
    if (!other && this.twoVersions()) {
      const { version } = this.facts.reference;
      throw new SetupError(`the reference was onnxruntime-web ${version}: give its package too`);
    }
    const limit = Number(byId('limit').value);
    if (!(limit > 0)) throw new SetupError('the time limit is a number of seconds above 0');
    return {
      suspect: readSide(this.suspect, source),
      reference: recorded ? null : readSide(this.reference, other ?? source),
      limit,
    };
  }

  source(part) {
    const { files } = part.folder;
    if (part['by-folder'].checked) {
      if (!files.length) return null;
      if (!this.chosen.has(files)) this.chosen.set(files, new ChosenPackage(files));
      return this.chosen.get(files);
    }
    const address = part.address.value.trim();
    if (!address) return null;
    if (!this.served.has(address)) this.served.set(address, new ServedPackage(address));
    return this.served.get(address);
  }
}

/** Put a copy of a template into a slot; its controls by their name, with ids and labels of their own. */
function place(slot, template, prefix) {
  const copy = byId(template).content.cloneNode(true);
  const controls = {};
  for (const control of copy.querySelectorAll('[data-name]')) {
    const name = control.dataset.name;
    controls[name] = control;
    control.id = `${prefix}-${name}`;
    if (control.type === 'radio') control.name = `${prefix}-from`;
  }
  for (const label of copy.querySelectorAll('[data-for]')) label.htmlFor = `${prefix}-${label.dataset.for}`;
  byId(slot).replaceChildren(copy);
  return controls;
}

/** Whoever fills in an address or chooses a folder means it. */
function usePackage(part) {
  part.address.addEventListener('input', () => (part['by-address'].checked = true));
  part.folder.addEventListener('change', () => {
    if (part.folder.files.length) part['by-folder'].checked = true;
  });
}

function fillSide(part, facts) {
  const choices = facts.recorded ? [...PROVIDERS, RECORDED] : PROVIDERS;
  fill(part.bundle, Object.keys(BUNDLES), facts.bundle);
  fill(part.provider, choices, facts.provider, { [RECORDED]: 'recorded by onnxreduce' });
  const { graphOptimizationLevel: level = '', ...session } = facts.session;
  fill(part.level, LEVELS, level, { '': 'not set' });
  part.session.value = JSON.stringify(session);
  part.runs.value = facts.runs;
  part.options.value = JSON.stringify(facts.provider_options);
}

function fill(select, values, chosen, labels = {}) {
  select.replaceChildren(...values.map((value) => make('option', { value }, labels[value] ?? value)));
  select.value = chosen;
}

function readSide(part, source) {
  const level = part.level.value ? { graphOptimizationLevel: part.level.value } : {};
  return {
    source,
    bundle: part.bundle.value,
    provider: { ...readObject(part.options, 'provider options'), name: part.provider.value },
    session: { ...readObject(part.session, 'session options'), ...level },
    runs: Number(part.runs.value),
  };
}

function readObject(field, what) {
  try {
    const value = JSON.parse(field.value.trim() || '{}');
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // told below
  }
  throw new SetupError(`the ${what} are no JSON object: ${field.value}`);
}
