// The conformance scripts over a spawned bridge.

import { findBridge } from '../src/bridge-path.js';
import { BridgeProcess } from '../src/process.js';
import { playAll } from '../../../tests/wire/conformance/player.mjs';

playAll(() => new BridgeProcess(findBridge()));
