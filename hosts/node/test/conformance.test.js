// The conformance scripts over a spawned bridge, and over a port.

import { findBridge } from '../src/bridge-path.js';
import { BridgePort } from '../src/port.js';
import { BridgeProcess } from '../src/process.js';
import { playAll } from '../../../tests/wire/conformance/player.mjs';

playAll(() => new BridgeProcess(findBridge()));
playAll(() => BridgePort.open(), undefined, ' over the port');
