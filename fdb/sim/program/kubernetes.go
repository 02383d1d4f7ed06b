package program

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// accountPath is where Kubernetes mounts the token of the service account.
const accountPath = "/var/run/secrets/kubernetes.io/serviceaccount/"

// metadata is what the launcher reads of a pod or a node.
type metadata struct {
	Metadata struct {
		Name              string            `json:"name"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		ResourceVersion   string            `json:"resourceVersion"`
	} `json:"metadata"`
}

// kubeClient reads and patches over HTTP, as the service account of the pod.
type kubeClient struct {
	p      *Process
	server string
	client *http.Client
}

func (p *Process) kubeClient() (*kubeClient, error) {
	host, port := p.env("KUBERNETES_SERVICE_HOST"), p.env("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined")
	}
	authority, err := os.ReadFile(p.path(accountPath + "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("the service account's ca.crt holds no certificate")
	}
	return &kubeClient{
		p: p, server: "https://" + net.JoinHostPort(host, port),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}},
	}, nil
}

// statusError is an answer that is none of success.
type statusError int

func (e statusError) Error() string {
	return "the API server answers " + strconv.Itoa(int(e)) + " " + http.StatusText(int(e))
}

// do sends a request; the answer is the caller's to close. The token is read each time, since it is replaced.
func (k *kubeClient) do(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, k.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(k.p.path(accountPath + "token"))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Accept", "application/json")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 {
		answer.Body.Close()
		return nil, statusError(answer.StatusCode)
	}
	return answer, nil
}

// get reads an object.
func (k *kubeClient) get(ctx context.Context, path string) (m metadata, err error) {
	answer, err := k.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return m, err
	}
	defer answer.Body.Close()
	err = json.NewDecoder(answer.Body).Decode(&m)
	return m, err
}

// annotate merges annotations into a pod.
func (k *kubeClient) annotate(ctx context.Context, path string, annotations map[string]string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	answer, err := k.do(ctx, http.MethodPatch, path+"?fieldManager=fdb-kubernetes-monitor", "application/merge-patch+json", body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// follow calls seen with an object whenever it changes, until the context ends. list is the path of its list.
func (k *kubeClient) follow(ctx context.Context, list, name string, seen func(m metadata, there bool)) {
	selector := "fieldSelector=" + url.QueryEscape("metadata.name="+name)
	for ctx.Err() == nil {
		version, err := k.list(ctx, list+"?"+selector, seen)
		if err == nil {
			err = k.watch(ctx, list+"?watch=1&"+selector+"&resourceVersion="+url.QueryEscape(version), seen)
		}
		if err != nil {
			pause(ctx, time.Second)
		}
	}
}

func (k *kubeClient) list(ctx context.Context, path string, seen func(metadata, bool)) (version string, err error) {
	answer, err := k.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var found struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []metadata `json:"items"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		return "", err
	}
	for _, m := range found.Items {
		seen(m, true)
	}
	return found.Metadata.ResourceVersion, nil
}

func (k *kubeClient) watch(ctx context.Context, path string, seen func(metadata, bool)) error {
	answer, err := k.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for events := json.NewDecoder(answer.Body); ; {
		var e struct {
			Type   string   `json:"type"`
			Object metadata `json:"object"`
		}
		if err := events.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil // it goes on with a list
			}
			return err
		}
		switch e.Type {
		case "ADDED", "MODIFIED":
			seen(e.Object, true)
		case "DELETED":
			seen(e.Object, false)
		case "ERROR":
			return fmt.Errorf("the watch of %s has failed", path)
		}
	}
}

// The annotations of the launcher. Source: fdbkubernetesmonitor/api/annotations.go at 7.3.69.
const (
	annotationConfiguration = "foundationdb.org/launcher-current-configuration"
	annotationEnvironment   = "foundationdb.org/launcher-environment"
	annotationOutdated      = "foundationdb.org/outdated-config-map-seen"
	annotationDelay         = "foundationdb.org/delay-shutdown"
	annotationClusterFile   = "foundationdb.org/cluster-file-change"
	annotationIsolate       = "foundationdb.org/isolate-process-group"
)

// ownPod is what the launcher knows of its pod and its node.
type ownPod struct {
	client *kubeClient
	path   string
	wake   chan int64 // times of outdated configurations, and of changes of the isolation

	mu   sync.Mutex
	pod  metadata
	gone bool
	node map[string]string // labels; nil: not watched
}

// openPod reads the pod, and the node if it is asked to, and follows both.
func (p *Process) openPod(ctx context.Context, gone *sync.WaitGroup, nodes bool) (*ownPod, error) {
	client, err := p.kubeClient()
	if err != nil {
		return nil, err
	}
	namespace, name, node := p.env("FDB_POD_NAMESPACE"), p.env("FDB_POD_NAME"), p.env("FDB_NODE_NAME")
	pods := "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods"
	o := &ownPod{client: client, path: pods + "/" + url.PathEscape(name), wake: make(chan int64, 16)}
	if o.pod, err = client.get(ctx, o.path); err != nil {
		return nil, err
	}
	gone.Go(func() { client.follow(ctx, pods, name, o.seen) })
	if nodes {
		found, err := client.get(ctx, "/api/v1/nodes/"+url.PathEscape(node))
		if err != nil {
			return nil, err
		}
		o.seenNode(found, true)
		gone.Go(func() { client.follow(ctx, "/api/v1/nodes", node, o.seenNode) })
	}
	return o, nil
}

// seen takes over a change of the pod and wakes the launcher if it has to look.
func (o *ownPod) seen(m metadata, there bool) {
	o.mu.Lock()
	before := o.pod.Metadata.Annotations
	o.pod, o.gone = m, !there
	o.mu.Unlock()
	now := m.Metadata.Annotations
	if !there || now == nil {
		return
	}
	at := time.Now().Unix()
	if before[annotationIsolate] == now[annotationIsolate] {
		text := now[annotationOutdated]
		if text == "" {
			return
		}
		var err error
		if at, err = strconv.ParseInt(text, 10, 64); err != nil {
			return
		}
	}
	select {
	case o.wake <- at:
	default: // it is awake
	}
}

func (o *ownPod) seenNode(m metadata, there bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if there {
		o.node = m.Metadata.Labels
	}
}

func (o *ownPod) annotation(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pod.Metadata.Annotations[name]
}

func (o *ownPod) isolated() bool {
	isolated, err := strconv.ParseBool(o.annotation(annotationIsolate))
	return err == nil && isolated
}

// nodeVariable is a label of the node as a variable: NODE_LABEL_, upper case, with underscores.
func (o *ownPod) nodeVariable(variable string) (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for label, value := range o.node {
		if "NODE_LABEL_"+strings.ToUpper(strings.NewReplacer("/", "_", ".", "_").Replace(label)) == variable {
			return value, true
		}
	}
	return "", false
}

// annotate writes annotations that have changed; it tries up to five times (retry.DefaultRetry).
func (o *ownPod) annotate(ctx context.Context, annotations map[string]string) error {
	changed := map[string]string{}
	o.mu.Lock()
	for name, value := range annotations {
		if now, there := o.pod.Metadata.Annotations[name]; !there || now != value {
			changed[name] = value
		}
	}
	leaving := o.gone || o.pod.Metadata.DeletionTimestamp != ""
	o.mu.Unlock()
	switch {
	case leaving:
		return errors.New("pod is marked for deletion, cannot update annotations")
	case len(changed) == 0:
		return nil
	}
	var err error
	for range 5 {
		if err = o.client.annotate(ctx, o.path, changed); err == nil {
			return nil
		}
		var status statusError
		if errors.As(err, &status) && (status == http.StatusNotFound || status == http.StatusForbidden) {
			return err
		}
		pause(ctx, 10*time.Millisecond)
	}
	return err
}
