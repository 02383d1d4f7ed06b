package server

import (
	"encoding/json"
	"net/http"

	"github.com/pawl-dev/pawl/cluster/service"
)

const heartbeatPath = "/v1/nodes/heartbeat"

// heartbeat serves the heartbeats of nodes. A node authenticates with its own token,
// so the route does not need an account.
func (s *Server) heartbeat(w http.ResponseWriter, r *http.Request) {
	callOf(r.Context()).route = heartbeatPath
	answer, err := s.acceptHeartbeat(r)
	if err != nil {
		writeProblem(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the node may have disconnected
}

func (s *Server) acceptHeartbeat(r *http.Request) (service.HeartbeatAnswer, error) {
	clusters, err := s.clusters()
	if err != nil {
		return service.HeartbeatAnswer{}, err
	}
	token, _, err := bearer(r.Header)
	if err != nil {
		return service.HeartbeatAnswer{}, err
	}
	body, err := ReadBody(r)
	if err != nil {
		return service.HeartbeatAnswer{}, err
	}
	var h service.Heartbeat
	if err := json.Unmarshal(body, &h); err != nil {
		return service.HeartbeatAnswer{}, Malformed.Errorf("the heartbeat: %w", err)
	}
	if err := clusters.KnowsNode(r.Context(), token, h); err != nil {
		return service.HeartbeatAnswer{}, err
	}
	if err := Admit(r.Context()); err != nil {
		return service.HeartbeatAnswer{}, err
	}
	return clusters.Heartbeat(r.Context(), token, h)
}
