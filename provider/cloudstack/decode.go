package cloudstack

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
)

// decode decodes the envelope {"<command>response":{…}} into out. It returns an API error
// as *refusal, and PROVIDER_UNREACHABLE for an unreadable answer, which says nothing about
// the resource.
func decode(command string, status int, body []byte, out any) error {
	inner, err := unwrapEnvelope(command, body)
	if status != http.StatusOK {
		r := &refusal{Command: command, Status: status, Code: status}
		var failed failure
		switch {
		case err == nil && json.Unmarshal(inner, &failed) == nil:
			r.Text = string(failed.Text)
		case status == codeParam: // only the API reports a wrong parameter
			return unreadable(command, "431 without an error object")
		}
		return r
	}
	if err != nil {
		return err
	}
	var failed failure
	if err := json.Unmarshal(inner, &failed); err != nil {
		return unreadable(command, "the envelope holds no object")
	}
	if failed.Code != 0 {
		return &refusal{Command: command, Status: status, Code: int(failed.Code), Text: string(failed.Text)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(inner, out); err != nil {
		return unreadable(command, clean(err.Error()))
	}
	return nil
}

// unwrapEnvelope returns the value of the envelope's only key.
func unwrapEnvelope(command string, body []byte) (json.RawMessage, error) {
	var envelope map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&envelope); err != nil {
		return nil, unreadable(command, "it is no JSON object")
	}
	if dec.More() {
		return nil, unreadable(command, "something follows the JSON object")
	}
	if len(envelope) != 1 {
		return nil, unreadable(command, "the envelope has "+strconv.Itoa(len(envelope))+" keys, not one")
	}
	for key, inner := range envelope {
		switch strings.ToLower(key) {
		case strings.ToLower(command) + "response", "errorresponse":
			if trimmed := bytes.TrimSpace(inner); len(trimmed) > 0 && trimmed[0] == '{' {
				return inner, nil
			}
			return nil, unreadable(command, "the envelope holds no object")
		}
	}
	return nil, unreadable(command, "it is the answer of another command")
}

func unreadable(command, why string) error {
	return cluster.ProviderUnreachable.Errorf("%s: the answer cannot be read: %s", command, why)
}

// failure is the error object of the API.
type failure struct {
	Code number `json:"errorcode"`
	Text text   `json:"errortext"`
}

// text is a string that some versions of the server send as a number.
type text string

// UnmarshalJSON takes any scalar; anything else is empty.
func (t *text) UnmarshalJSON(b []byte) error {
	var v any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		*t = text(v)
	case json.Number:
		*t = text(v.String())
	case bool:
		*t = text(strconv.FormatBool(v))
	default:
		*t = ""
	}
	return nil
}

// number is a number that some versions of the server send as a string.
type number int64

// UnmarshalJSON takes numbers and strings of them; anything else is 0.
func (n *number) UnmarshalJSON(b []byte) error {
	var t text
	if err := t.UnmarshalJSON(b); err != nil {
		return err
	}
	*n = 0
	if i, err := strconv.ParseInt(string(t), 10, 64); err == nil {
		*n = number(i)
	} else if f, err := strconv.ParseFloat(string(t), 64); err == nil && f > -1e15 && f < 1e15 {
		*n = number(f)
	}
	return nil
}

// flag is a boolean that some versions of the server send as a string.
type flag bool

// UnmarshalJSON takes true and "true"; anything else is false.
func (f *flag) UnmarshalJSON(b []byte) error {
	var t text
	if err := t.UnmarshalJSON(b); err != nil {
		return err
	}
	*f = flag(strings.EqualFold(string(t), "true"))
	return nil
}
