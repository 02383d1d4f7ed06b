package kubelet

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// execIdle is how long a silent exec may last.
const execIdle = 4 * time.Hour

// listen starts the HTTPS endpoint of a node, if there is an authority, and returns its port.
func (k *Kubelet) listen(n *node) (int32, error) {
	if k.o.Authority == nil {
		return 0, nil
	}
	config, err := k.o.Authority.server(n.address)
	if err != nil {
		return 0, err
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(n.address, "0"))
	if err != nil {
		return 0, fmt.Errorf("the endpoint of node %s: %w", n.name, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.counted(n, k.serveLogs))
	for _, method := range []string{"GET", "POST"} {
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", k.counted(n, k.serveExec))
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{uid}/{container}", k.counted(n, k.serveExec))
	}
	server := &http.Server{Handler: mux, TLSConfig: config, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(logWriter(k.o.Log), "", 0)}
	k.wg.Go(func() {
		if err := server.Serve(tls.NewListener(ln, config)); err != nil && k.ctx.Err() == nil {
			k.o.Log("kubelet: the endpoint of node %s: %v", n.name, err)
		}
	})
	k.wg.Go(func() {
		<-k.ctx.Done()
		server.Close()
	})
	return int32(ln.Addr().(*net.TCPAddr).Port), nil
}

type logWriter func(string, ...any)

// Write implements io.Writer.
func (w logWriter) Write(line []byte) (int, error) {
	w("kubelet: endpoint: %s", line)
	return len(line), nil
}

// counted finds the pod of a request, and lets Stop wait for the answer. A node that is
// stopped or cut does not answer.
func (k *Kubelet) counted(n *node, answer func(http.ResponseWriter, *http.Request, *worker, *container)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if !k.reachable(n.name) {
			panic(http.ErrAbortHandler)
		}
		k.mu.Lock()
		if k.ctx.Err() != nil {
			k.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		k.requests.Add(1)
		k.mu.Unlock()
		defer k.requests.Done()
		namespace, pod, name := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
		w := k.worker(namespace, pod)
		if w == nil || w.node != n.name {
			http.Error(rw, fmt.Sprintf("pod %q has no processes on node %s", pod, n.name), http.StatusNotFound)
			return
		}
		all := slices.Concat(w.main, w.init)
		i := slices.IndexFunc(all, func(c *container) bool { return c.spec.Name == name })
		if i < 0 {
			http.Error(rw, fmt.Sprintf("container %s is not valid for pod %s", name, pod), http.StatusBadRequest)
			return
		}
		answer(rw, r, w, all[i])
	}
}

func (k *Kubelet) serveExec(rw http.ResponseWriter, r *http.Request, w *worker, c *container) {
	streams, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	p := c.process()
	if p == nil {
		http.Error(rw, fmt.Sprintf("container not found (%q)", c.spec.Name), http.StatusInternalServerError)
		return
	}
	remotecommand.ServeExec(rw, r, executor{k.ctx, p}, w.name.Name, string(w.uid), c.spec.Name, r.URL.Query()["command"], streams,
		execIdle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}
