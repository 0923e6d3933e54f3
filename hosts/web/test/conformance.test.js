// The conformance scripts over the engine in a worker.

import { playAll } from '../../../tests/wire/conformance/player.mjs';
import { open } from './node-transport.js';

/** What a worker does not have. Skipped by name, so that a new script is not. */
const FILES = 'SKIPPED: there are no files in a worker';
const NOT_HERE = {
  'adapters.jsonl': FILES,
  'checkpoint_files.jsonl': FILES,
  'shutdown.jsonl': 'SKIPPED: a step of one request holds the others up where there is one thread',
  'failure.jsonl': 'SKIPPED: a panic ends the instance, which the browser test shows',
};

playAll(open, (file) => NOT_HERE[file]);
