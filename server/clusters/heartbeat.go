package clusters

import (
	"encoding/json"
	"net/http"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/server/admission"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
)

// HeartbeatPath is where nodes report.
const HeartbeatPath = "/v1/nodes/heartbeat"

const maxHeartbeat = 256 << 10 // bytes

// heartbeat serves the heartbeats of nodes. A node authenticates with its own token,
// so the route does not need an account.
func (s *Service) heartbeat(w http.ResponseWriter, r *http.Request) {
	answer, err := s.acceptHeartbeat(r)
	if err != nil {
		route.WriteProblem(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the node may have disconnected
}

func (s *Service) acceptHeartbeat(r *http.Request) (cluster.HeartbeatAnswer, error) {
	clusters, err := s.service()
	if err != nil {
		return cluster.HeartbeatAnswer{}, err
	}
	token, _, err := auth.Bearer(r.Header)
	if err != nil {
		return cluster.HeartbeatAnswer{}, err
	}
	body, err := admission.ReadBody(r)
	if err != nil {
		return cluster.HeartbeatAnswer{}, err
	}
	var h cluster.Heartbeat
	if err := json.Unmarshal(body, &h); err != nil {
		return cluster.HeartbeatAnswer{}, route.Malformed.Errorf("the heartbeat: %w", err)
	}
	if err := clusters.KnowsNode(r.Context(), token, h); err != nil {
		return cluster.HeartbeatAnswer{}, err
	}
	if err := route.Admit(r.Context()); err != nil {
		return cluster.HeartbeatAnswer{}, err
	}
	return clusters.Heartbeat(r.Context(), token, h)
}
