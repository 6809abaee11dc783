// In the page, before the runtime is loaded: tell on the console what is recorded, written and submitted, in order.
// Buffers and encoders get numbers in the order of their first use; a bind group lists its buffers as JSEP makes it:
// inputs, outputs, uniforms.
(() => {
  const numbers = new Map();
  const counts = {};
  const bound = new WeakMap();
  const number = (thing, kind) => {
    if (!numbers.has(thing)) {
      counts[kind] = (counts[kind] ?? 0) + 1;
      numbers.set(thing, `${kind}${counts[kind]}`);
    }
    return numbers.get(thing);
  };
  const buffer = (it) => {
    if (it.usage & GPUBufferUsage.STORAGE) return number(it, 'buffer');
    if (it.usage & GPUBufferUsage.UNIFORM) return number(it, 'uniform');
    return number(it, 'staging');
  };
  /** Tell of each call of a method, with the object, what it was given and what it gave. */
  const tell = (prototype, method, text) => {
    const real = prototype[method];
    prototype[method] = function told(...given) {
      const result = real.apply(this, given);
      const words = text(this, given, result);
      if (words) console.log(`## ${words}`);
      return result;
    };
  };
  const owners = new WeakMap();
  tell(GPUDevice.prototype, 'createCommandEncoder', (_, __, encoder) => `${number(encoder, 'encoder')} begins`);
  tell(GPUDevice.prototype, 'createBindGroup', (_, [{ entries }], group) => {
    bound.set(group, entries.map(({ resource }) => buffer(resource.buffer ?? resource)).join(' '));
  });
  tell(GPUCommandEncoder.prototype, 'beginComputePass', (encoder, _, pass) => {
    owners.set(pass, { encoder: number(encoder, 'encoder'), group: '' });
  });
  tell(GPUComputePassEncoder.prototype, 'setBindGroup', (pass, [, group]) => {
    owners.get(pass).group = bound.get(group);
  });
  tell(GPUComputePassEncoder.prototype, 'dispatchWorkgroups', (pass) => {
    const { encoder, group } = owners.get(pass);
    return `${encoder} records: dispatch on ${group}`;
  });
  tell(GPUCommandEncoder.prototype, 'copyBufferToBuffer', (encoder, [from, , to]) => {
    return `${number(encoder, 'encoder')} records: copy ${buffer(from)} to ${buffer(to)}`;
  });
  tell(GPUCommandEncoder.prototype, 'finish', (encoder, _, commands) => {
    numbers.set(commands, number(encoder, 'encoder'));
  });
  tell(GPUQueue.prototype, 'submit', (_, [all]) => `QUEUE: run ${all.map((each) => numbers.get(each)).join(', ')}`);
  tell(GPUQueue.prototype, 'writeBuffer', (_, [to]) => `QUEUE: write ${buffer(to)}`);
})();
