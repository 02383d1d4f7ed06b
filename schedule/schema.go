package schedule

import "encoding/json"

// Schema checks specs. It is a workflow.Schema.
type Schema struct{}

// Check returns the findings of Parse.
func (Schema) Check(spec json.RawMessage) error {
	_, err := Parse(spec)
	return err
}

// MarshalJSON returns the JSON Schema of specs: their form, and not whether a calendar makes sense.
func (Schema) MarshalJSON() ([]byte, error) { return []byte(specSchema), nil }

const specSchema = `{
  "type": "object", "required": ["flow"], "additionalProperties": false,
  "oneOf": [{"required": ["cron"]}, {"required": ["interval"]}],
  "properties": {
    "cron": {"type": "string", "description": "minute, hour, day of month, month, day of week, or @daily and its like"},
    "interval": {"type": "string", "description": "duration as 15m: ticks at its multiples since 1970-01-01 UTC"},
    "timeZone": {"type": "string", "description": "IANA name of the time zone of cron and except; default UTC"},
    "except": {"type": "array", "items": {"type": "string"}, "description": "days without ticks: 2026-12-24, 2026-12-24/2027-01-02, or each year 12-24"},
    "flow": {"type": "string", "description": "flow of the runs"},
    "subject": {"type": "string", "description": "subject of the runs; default: the schedule"},
    "input": {"type": ["object", "null"], "description": "input of the runs"},
    "overlap": {"enum": ["skip", "queue", "replace"], "description": "what a tick does while an earlier run has not ended; default skip"},
    "catchUp": {"type": "integer", "minimum": 0, "maximum": 100, "description": "ticks that are made up for after an outage, the newest ones; default 1"},
    "spread": {"type": "string", "description": "each schedule begins later than its ticks by a share of this duration"}
  }
}`
