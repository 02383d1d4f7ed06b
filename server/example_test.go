package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// A server with an engine, on a free port.
func Example() {
	heartbeat := workflow.Flow{Name: "Hello", Steps: []workflow.Step{
		{Name: "Greet", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }},
	}}
	notifier := &control.Notifier{} // wakes event streams when the engine has saved something
	engine, err := workflow.New(runstore.NewMemory(), []workflow.Flow{heartbeat}, workflow.Options{Hooks: []workflow.Hook{events.Hook(notifier)}})
	if err != nil {
		panic(err)
	}
	s, err := server.New(server.Options{Engine: engine, Objects: control.NewMemory(), Notifier: notifier, Listen: "127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	ln, err := s.Listen()
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, ln) }()

	answer, err := http.Post("http://"+ln.Addr().String()+"/v1/plans", "application/json", strings.NewReader(`{"flow": "Hello"}`))
	if err != nil {
		panic(err)
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		panic(err)
	}
	fmt.Println(answer.StatusCode, strings.Contains(string(body), `{"name":"Greet","verdict":"run"}`))

	http.DefaultClient.CloseIdleConnections()
	stop()
	fmt.Println(<-served)
	// Output:
	// 200 true
	// <nil>
}

// Without a token a server starts only on loopback.
func ExampleNew_unsafe() {
	engine, err := workflow.New(runstore.NewMemory(), nil, workflow.Options{})
	if err != nil {
		panic(err)
	}
	_, err = server.New(server.Options{Engine: engine, Listen: "0.0.0.0:7295"})
	fmt.Println(err)
	// Output:
	// LISTEN_UNSAFE: it would listen on 0.0.0.0:7295, which other machines reach, and has neither token nor account
}
