package action

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// StatusWriter changes the status of objects.
type StatusWriter interface {
	// PatchStatus merges a JSON merge patch (RFC 7396) into the status of the object that subject
	// names. The key identifies the step: calls with the same key have the same patch.
	PatchStatus(ctx context.Context, subject string, patch json.RawMessage, key string) error
}

var statusParams = newParams(`{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object", "minProperties": 1,
	"description": "merged into the status of the run's subject; null removes a field"
	}`, nil, nil)

func statusAction(writer StatusWriter) workflow.Action {
	return workflow.Action{
		Name:        "status",
		Description: "merges its parameters into the status of the run's subject",
		With:        statusParams,
		Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			patch, err := read[json.RawMessage](t, statusParams)
			if err != nil {
				return outcome.Fail(err)
			}
			return outcome.Fail(writer.PatchStatus(ctx, t.Subject(), patch, t.Key()))
		},
	}
}
