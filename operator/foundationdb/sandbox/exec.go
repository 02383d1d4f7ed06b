package sandbox

import (
	"encoding/json"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// The channels of a program in a pod, as the kubelet has them.
const (
	stdout, stderr, failure = 1, 2, 3

	execProtocol = "v5.channel.k8s.io"
)

// exec runs a tool of FoundationDB in a pod, over a WebSocket. What the caller writes to it is not read.
func (s *Sandbox) exec(w http.ResponseWriter, r *http.Request, q query) error {
	if !wsstream.IsWebSocketRequest(r) {
		return apierrors.NewBadRequest("the sandbox runs programs over a WebSocket only")
	}
	values := r.URL.Query()
	s.mu.Lock()
	o, err := s.stored(q)
	in := values.Get("container")
	if p, isPod := o.(*corev1.Pod); err == nil && isPod && in == "" && len(p.Spec.Containers) > 0 {
		in = p.Spec.Containers[0].Name
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	ran, err := s.world.Exec(q.namespace, q.name, in, values["command"])
	s.mu.Unlock()
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{execProtocol: {Binary: true, Channels: []wsstream.ChannelType{
		wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel,
	}}})
	_, streams, err := conn.Open(w, r)
	if err != nil {
		return nil // it has answered
	}
	defer conn.Close() // the caller may be gone
	ended := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}
	if ran.Exit != 0 {
		ended.Status, ended.Reason, ended.Message = metav1.StatusFailure, "NonZeroExitCode", "command terminated with exit code "+strconv.Itoa(exitOf(ran.Exit))
		ended.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(exitOf(ran.Exit))}}}
	}
	status, err := json.Marshal(ended)
	if err != nil {
		return nil // it has begun to answer
	}
	for channel, text := range map[int]string{stdout: ran.Stdout, stderr: ran.Stderr} {
		for len(text) > 0 { // a message is as large as the kubelet makes them
			part := text[:min(len(text), 32<<10)]
			text = text[len(part):]
			if _, err := streams[channel].Write([]byte(part)); err != nil {
				return nil // the caller is gone
			}
		}
	}
	_, _ = streams[failure].Write(status) // the caller may be gone
	return nil
}

// exitOf is the exit code of a program; one that was ended from outside has that of the signal.
func exitOf(code int) int {
	if code < 0 {
		return 137
	}
	return code
}
