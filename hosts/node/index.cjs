'use strict';
// For `require('lean-node')`: the same module, so that its classes are the same however they were reached.
module.exports = require('./src/index.js');
