"""onnxruntime-web in a real Chromium, driven by Playwright."""
