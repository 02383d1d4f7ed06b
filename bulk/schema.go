package bulk

import "encoding/json"

// Schema checks specs. It is a workflow.Schema.
type Schema struct{}

// Check returns the findings of Parse.
func (Schema) Check(spec json.RawMessage) error {
	_, err := Parse(spec)
	return err
}

// MarshalJSON returns the JSON Schema of specs: their form, and not which argument a verb takes.
func (Schema) MarshalJSON() ([]byte, error) { return []byte(specSchema), nil }

const specSchema = `{
  "type": "object", "required": ["verb"], "additionalProperties": false,
  "properties": {
    "verb": {"enum": ["resume", "pause", "cancel", "skip", "signal"], "description": "what is asked of each run"},
    "ids": {"type": "array", "maxItems": 1000, "items": {"type": "string"}, "description": "only these runs: complete ids"},
    "flow": {"type": "string", "description": "only runs of this flow"},
    "fault": {"type": "string", "description": "only runs that are paused with this fault"},
    "phases": {"type": "array", "items": {"enum": ["Queued", "Running", "Waiting", "Paused", "Cancelling"]}, "description": "only runs in these phases; default: those that the verb is for"},
    "selector": {"type": "string", "description": "labels: key=value, key!=value, key, !key, separated by commas"},
    "text": {"type": "string", "maxLength": 200, "description": "only runs with this in the id, the flow, the subject or a label (key=value)"},
    "createdAfter": {"type": "string", "format": "date-time", "description": "only runs that were created then or later"},
    "createdBefore": {"type": "string", "format": "date-time", "description": "only runs that were created up to this time"},
    "actor": {"type": "string", "description": "the person behind the request"},
    "reason": {"type": "string", "description": "why, for the history of the runs"},
    "planned": {"type": "integer", "minimum": 0, "description": "number of runs that the plan had"},
    "from": {"type": "string", "description": "of resume: failed, first, or the name of a step"},
    "definition": {"enum": ["old", "new"], "description": "of resume: after FLOW_CHANGED"},
    "mode": {"enum": ["hold", "undo", "drop"], "description": "of cancel; default hold"},
    "giveUp": {"type": "boolean", "description": "of cancel: do not retry a failed undo"},
    "step": {"type": "string", "description": "of skip; default: the step that the fault of the run names"},
    "force": {"type": "boolean", "description": "of skip: also if the step is not skippable"},
    "output": {"description": "of skip: replaces the step's own output"},
    "signal": {"type": "string", "description": "of signal: its name"},
    "data": {"description": "of signal: its payload"}
  }
}`
