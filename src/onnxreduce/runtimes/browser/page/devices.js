// WebGPU devices of a frame. The runtime asks for its device itself, so the request is wrapped to get hold of it.

/**
 * Which adapter WebGPU gives here.
 * @returns {Promise<object | null>} null where there is none
 */
export async function adapterFacts() {
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) return null;
  const { vendor, architecture, device, description, driver, backend, isFallbackAdapter } = adapter.info;
  return {
    vendor,
    architecture,
    device,
    description,
    driver: driver ?? '',
    backend: backend ?? '',
    fallback: isFallbackAdapter ?? adapter.isFallbackAdapter ?? false,
    features: [...adapter.features].sort(),
  };
}

/** Errors of all devices of this frame, and their loss. */
export class DeviceWatch {
  constructor() {
    /** @type {Set<GPUDevice>} */
    this.live = new Set();
    /** @type {string[]} */
    this.errors = [];
    /** @type {string | null} why a device was lost */
    this.lost = null;
    /** @type {() => void} */
    this.onLost = () => {};
    if (typeof GPUAdapter === 'undefined') return;
    const watch = this;
    const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function requestDevice(descriptor) {
      const device = await request.call(this, descriptor);
      watch.add(device);
      return device;
    };
  }

  /** @param {GPUDevice} device */
  add(device) {
    this.live.add(device);
    device.addEventListener('uncapturederror', ({ error }) => {
      this.errors.push(`${error.constructor.name}: ${error.message}`);
    });
    device.lost.then(({ reason, message }) => {
      this.live.delete(device);
      // 'destroyed' is the runtime's own doing, for example after its last session.
      if (reason === 'destroyed') return;
      this.lost = message || String(reason);
      this.onLost();
    });
  }

  /**
   * Wait until all work that was submitted so far is done and its errors have arrived. Errors are sent in order with
   * the answers waited for, but each arrives as a task of its own, hence the last step.
   */
  async drain() {
    await Promise.all(
      [...this.live].map(async (device) => {
        device.pushErrorScope('validation');
        await Promise.all([device.queue.onSubmittedWorkDone(), device.popErrorScope()]).catch(() => {});
      }),
    );
    await nextTask();
  }

  /** @returns {string[]} the errors that came since the last call */
  take() {
    return this.errors.splice(0);
  }

  destroy() {
    for (const device of this.live) device.destroy();
    this.live.clear();
  }
}

/** Resolves in a later task, after all that were queued before (a timer would be held back to 4 ms). */
export function nextTask() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
