// The JavaScript side of an interpreter: it runs code in one global context, one request after the other.
//
// A request on the control pipe has four fields, each ended by a NUL: what to do, its number, the mark of what is sent
// while the code runs, and the code. Behind it comes the mark of the end, on a line of its own, which is used when the code
// has ended. A frame is a NUL, a mark, a length, a colon and as many bytes.
'use strict';
(() => {
  const fs = require('fs');
  const inspector = require('inspector');
  const net = require('net');
  const path = require('path');
  const util = require('util');
  const vm = require('vm');
  const { createRequire } = require('module');

  const control = 3, kept = { 1: 4, 2: 5 };
  const mostText = 64 << 10, mostBundle = 512 << 10, mostValue = 4 << 10;
  const home = process.cwd(), environ = { ...process.env };
  const nap = new Int32Array(new SharedArrayBuffer(4));
  let mark = '', contextID = 0, context = null, taken, interruptWait = null;

  function write(fd, data) {
    for (let at = 0; at < data.length;) {
      try {
        at += fs.writeSync(fd, data, at);
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
        Atomics.wait(nap, 0, 0, 1); // the pipe is full, and libuv has made it non-blocking
      }
    }
  }

  function frame(fd, mark, text) {
    const data = Buffer.from(text);
    write(kept[fd], Buffer.concat([Buffer.from(`\0${mark}${data.length}:`), data]));
  }

  const shorten = (text, most) => (text.length <= most ? text : text.slice(0, most) + '...');

  function bundle(value) {
    let mime = {};
    try {
      const shown = value !== null && value !== undefined && value[Symbol.for('Jupyter.display')];
      if (typeof shown === 'function') mime = { ...shown.call(value) };
    } catch { /* it is shown as text */ }
    if (mime['text/plain'] === undefined) {
      let text;
      try {
        text = util.inspect(value, { maxArrayLength: 1000, maxStringLength: mostText });
      } catch (error) {
        text = `<a value that cannot be shown: ${error}>`;
      }
      mime['text/plain'] = shorten(text, mostText);
    }
    return mime;
  }

  function send(kind, mime) {
    let room = mostBundle;
    const data = { mime: {} };
    for (const [name, value] of Object.entries(mime)) {
      let size;
      try {
        size = Buffer.byteLength(JSON.stringify(value));
      } catch {
        continue;
      }
      if (size > room) {
        data.omitted = { ...data.omitted, [name]: size };
        continue;
      }
      room -= size;
      data.mime[name] = value;
    }
    frame(1, mark, `${kind} ${JSON.stringify(data)}`);
  }

  const session = new inspector.Session();
  session.connect();
  let newest = 0;
  session.on('Runtime.executionContextCreated', (message) => { newest = message.params.context.id; });
  session.post('Runtime.enable');

  // What is called in here is ended by SIGINT.
  const guard = vm.createContext({ call: null });
  const guarded = new vm.Script('call()');

  // renew makes a context with the globals of Node.
  function renew() {
    const globals = {};
    context = vm.createContext(globals, { name: 'interpreter' });
    contextID = newest;
    for (const name of Object.getOwnPropertyNames(globalThis)) {
      if (!(name in context) || ['console', 'WebAssembly'].includes(name)) {
        Object.defineProperty(context, name, Object.getOwnPropertyDescriptor(globalThis, name));
      }
    }
    context.global = context;
    context.require = createRequire(path.join(process.cwd(), 'run.js'));
    context.display = (value) => send('display', bundle(value));
  }

  // valueOf is the value that the inspector tells of.
  function valueOf(remote) {
    if (remote.objectId !== undefined) {
      taken = undefined;
      context.__take = (value) => { taken = value; };
      session.post('Runtime.callFunctionOn', {
        executionContextId: contextID, functionDeclaration: 'function (value) { __take(value) }', arguments: [{ objectId: remote.objectId }],
      });
      delete context.__take;
      session.post('Runtime.releaseObject', { objectId: remote.objectId });
      return taken;
    }
    if (remote.unserializableValue !== undefined) {
      const text = remote.unserializableValue;
      return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
    }
    return remote.value;
  }

  // ours are the lines of a stack that are not the code's.
  const ours = /^\s+at (new Promise \(<anonymous>\)$|.*\(?(node:|evalmachine))/;

  class Interrupted extends Error {}

  // evaluate runs code as a REPL does: await works, and what was declared may be declared again.
  function evaluate(code, name) {
    return new Promise((resolve, reject) => {
      interruptWait = () => reject(new Interrupted());
      guard.call = () => session.post('Runtime.evaluate', {
        expression: `${code}\n//# sourceURL=${name}`, contextId: contextID, replMode: true,
      }, (error, answer) => {
        if (error) reject(new Interrupted());
        else resolve(answer);
      });
      try {
        guarded.runInContext(guard, { breakOnSigint: true });
      } catch (error) {
        reject(error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new Interrupted() : error);
      }
    }).finally(() => { interruptWait = null; });
  }

  function report(error) {
    let name = 'Error', value = '', trace = [];
    try {
      if (util.types.isNativeError(error)) {
        name = String(error.name);
        value = String(error.message);
        trace = String(error.stack).split('\n').filter((line) => !ours.test(line) && !line.includes(__filename));
      } else {
        name = 'Thrown';
        value = util.inspect(error);
        trace = [`Thrown: ${value}`];
      }
    } catch { /* what cannot be read is left out */ }
    trace = shorten(trace.join('\n'), mostText).split('\n');
    frame(1, mark, `exception ${JSON.stringify({ name, value: shorten(value, mostValue), traceback: trace })}`);
  }

  async function run(code, number) {
    try {
      const answer = await evaluate(code, `run-${number}.js`);
      if (answer.exceptionDetails) {
        const thrown = answer.exceptionDetails.exception;
        report(thrown ? valueOf(thrown) : new Error(answer.exceptionDetails.text));
        return 1;
      }
      const value = valueOf(answer.result);
      if (value !== undefined) send('result', bundle(value));
      return 0;
    } catch (error) {
      if (error instanceof Interrupted) {
        frame(1, mark, `exception ${JSON.stringify({ name: 'Interrupted', value: 'the code was interrupted', traceback: ['Interrupted'] })}`);
        return 130;
      }
      report(error);
      return 1;
    }
  }

  function mend() {
    for (const fd of [1, 2]) {
      try {
        fs.fstatSync(fd);
      } catch {
        try {
          fs.openSync(`/proc/self/fd/${kept[fd]}`, 'w'); // the lowest that is free
        } catch { /* it stays closed */ }
      }
    }
  }

  function clear() {
    process.chdir(home);
    for (const name of Object.keys(process.env)) delete process.env[name];
    Object.assign(process.env, environ);
    renew();
  }

  // Code may be interrupted anywhere, in a write too: a stream with a state would be stuck.
  for (const [fd, stream] of [[1, process.stdout], [2, process.stderr]]) {
    stream.write = (chunk, encoding, callback) => {
      const then = typeof encoding === 'function' ? encoding : callback;
      let failed = null;
      try {
        write(fd, typeof chunk === 'string' ? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : Buffer.from(chunk));
      } catch (error) {
        if (error.code === undefined) throw error;
        failed = error;
      }
      if (typeof then === 'function') process.nextTick(then, failed);
      return true;
    };
  }
  for (const signal of ['SIGINT', 'SIGWINCH']) process.on(signal, () => { if (interruptWait) interruptWait(); });
  const unhandled = (error) => {
    try {
      write(2, Buffer.from(`Uncaught ${util.inspect(error)}\n`));
    } catch { /* there is nobody to tell */ }
  };
  process.on('uncaughtException', unhandled);
  process.on('unhandledRejection', unhandled);
  renew();

  // serve takes one request after the other.
  let pending = Buffer.alloc(0), busy = false;
  async function serve() {
    if (busy) return;
    const fields = [];
    let at = 0;
    for (; fields.length < 5;) {
      const end = pending.indexOf(fields.length < 4 ? 0 : 10, at);
      if (end < 0) return;
      fields.push(pending.toString('utf8', at, end));
      at = end + 1;
    }
    busy = true;
    pending = pending.subarray(at);
    let code = 0;
    mark = fields[2];
    mend();
    if (fields[0] === 'clear') clear();
    else code = await run(fields[3], fields[1]);
    frame(2, fields[4], '');
    frame(1, fields[4], `end ${code}`);
    busy = false;
    setImmediate(serve);
  }
  // A signal that came before a request is handled before it: in an iteration of the loop signals come after what is read.
  const requests = new net.Socket({ fd: control, readable: true, writable: false });
  requests.on('data', (data) => {
    pending = Buffer.concat([pending, data]);
    setImmediate(serve);
  });
  requests.on('close', () => process.exit(0));
})();
