package server

import (
	"encoding/json"
	"net/http"

	"github.com/pawl-dev/pawl/cluster/service"
)

const helloPath = "/v1/nodes/hello"

// hello hears nodes that call home (containercluster.md 8.3). It pays with the
// node's own token, so it stands outside of the accounts.
func (s *Server) hello(w http.ResponseWriter, r *http.Request) {
	callOf(r.Context()).route = helloPath
	answer, err := s.hear(r)
	if err != nil {
		writeProblem(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the node may have gone
}

func (s *Server) hear(r *http.Request) (service.HelloAnswer, error) {
	clusters, err := s.clusters()
	if err != nil {
		return service.HelloAnswer{}, err
	}
	token, _, err := bearer(r.Header)
	if err != nil {
		return service.HelloAnswer{}, err
	}
	body, err := ReadBody(r)
	if err != nil {
		return service.HelloAnswer{}, err
	}
	var h service.Hello
	if err := json.Unmarshal(body, &h); err != nil {
		return service.HelloAnswer{}, Malformed.Errorf("the hello: %w", err)
	}
	if err := clusters.KnowsNode(r.Context(), token, h); err != nil {
		return service.HelloAnswer{}, err
	}
	if err := Admit(r.Context()); err != nil {
		return service.HelloAnswer{}, err
	}
	return clusters.Hello(r.Context(), token, h)
}
