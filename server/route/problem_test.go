package route

import (
	"errors"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

func TestEveryStatusIsDeclared(t *testing.T) {
	for status := 400; status < 600; status++ {
		p := libraryProblem("/x", status, "m", []error{errors.New("a"), &huma.ErrorDetail{Message: "b", Location: "body.c", Value: map[string]any{"secret": 1}}})
		if p.Code == "" || p.Remedy == "" || p.Status != status || len(p.Errors) != 2 || p.Errors[1].Value != nil {
			t.Errorf("%d: %+v", status, p)
		}
	}
}
