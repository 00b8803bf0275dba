// The search of the site runs in a worker, which browsers refuse to a page that
// was opened from disk. There, the worker's script runs in a hidden frame.
if (location.protocol === 'file:') {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement('iframe');
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.scope = this.frame.contentWindow;
      const page = this.scope.document;
      page.open();
      this.scope.postMessage = data => this.receive(data);
      this.scope.importScripts = (...urls) => Promise.all(
        urls.map(from => this.load(from)));
      page.write('<body></body>');
      page.close();
      this.ready = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.scope.document.createElement('script');
        script.onload = resolve;
        script.onerror = reject;
        script.src = url;
        this.scope.document.body.append(script);
      });
    }

    receive(data) {
      const event = new MessageEvent('message', {data});
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(
        new MessageEvent('message', {data})));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
