// The page: shows what was measured, runs both sides when asked, and shows what that gave beside it.

import { byId, make } from './elements.js';
import { Form } from './form.js';
import { SetupError } from './packages.js';
import { paintAgain, showEnvironment, showErrors, showOutputs, showVerdict } from './results.js';
import { Runner } from './runs.js';
import { fromBase64 } from './values.js';
import { judge } from './verdict.js';

const facts = JSON.parse(byId('facts').textContent);
const data = JSON.parse(byId('data').textContent);
const raw = ({ base64, ...tensor }) => ({ ...tensor, bytes: fromBase64(base64) });
const asked = {
  anchor: fromBase64(data.anchor),
  model: fromBase64(data.model),
  feeds: data.inputs.map(raw),
  outputs: data.outputs,
};
const runner = new Runner(byId('worker').textContent, asked, facts.rules);
const form = new Form(facts);
/** @type {import('./runs.js').Run | null} the reference's recorded outputs */
const recorded = data.expected && {
  status: 'ok', outputs: data.expected.map(raw), errors: [], console: [], version: '', adapter: null,
  files: 'the outputs that onnxreduce recorded',
};

function introduce() {
  document.title = facts.title;
  byId('title').textContent = facts.title;
  byId('story').replaceChildren(...facts.lines.map((line) => make('p', {}, line)));
  byId('nodes').textContent = facts.nodes.join('\n');
  const inputs = data.inputs.map(({ name, type, dims }) => make('li', {}, `${name}: ${type} [${dims.join(', ')}]`));
  byId('inputs').replaceChildren(...inputs);
  const { version } = facts.suspect;
  if (/^\d/.test(version)) byId('install').textContent = `npm i onnxruntime-web@${version}`;
  byId('measured').textContent = facts.measured ? `As measured by onnxreduce: ${facts.measured.words}` : '';
  byId('measured-message').textContent = facts.measured?.message ?? '';
  byId('measured-error').hidden = !facts.measured?.message;
  showOutputs(data.outputs, null, facts.measured);
}

/** @param {AbortSignal} signal */
async function run(signal) {
  const { suspect, reference, limit } = form.read();
  const runs = {};
  say('running the reference …');
  runs.Reference = reference ? await runner.run(reference, limit, signal) : recorded;
  say('running the suspect …');
  runs.Suspect = await runner.run(suspect, limit, signal);
  const verdict = judge(runs.Reference, runs.Suspect, facts.rules);
  showVerdict(verdict, facts.measured);
  showOutputs(data.outputs, verdict.differences, facts.measured);
  showErrors(runs);
  showEnvironment(runs, facts);
}

function say(text) {
  byId('verdict').className = '';
  byId('verdict').textContent = text;
}

function busy(state) {
  byId('run').disabled = state;
  byId('stop').disabled = !state;
  byId('results').ariaBusy = String(state);
}

/** Rejects when the reader stops it, whatever it is waiting for. */
async function untilStopped() {
  const controller = new AbortController();
  const stopped = new Promise((_, reject) => {
    controller.signal.addEventListener('abort', () => reject(controller.signal.reason));
  });
  byId('stop').onclick = () => controller.abort(new SetupError('stopped'));
  await Promise.race([run(controller.signal), stopped]);
}

byId('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  busy(true);
  byId('stop').focus(); // a disabled button cannot keep the focus
  try {
    await untilStopped();
  } catch (error) {
    say(`Not run: ${error instanceof SetupError ? error.message : (error.stack ?? error)}`);
    byId('verdict').className = 'unresolved';
  } finally {
    const away = document.activeElement !== byId('stop');
    busy(false);
    if (!away) byId('run').focus();
  }
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paintAgain);
introduce();
