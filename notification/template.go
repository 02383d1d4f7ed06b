package notification

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"text/template"
	"time"
)

// The templates of the formats.
var formats = map[string]string{
	"json":  "",
	"slack": `{"text": {{json (print .Text (remedy .))}}}`,
	"teams": `{"type": "message", "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": {
  "type": "AdaptiveCard", "version": "1.4", "body": [
    {"type": "TextBlock", "weight": "Bolder", "wrap": true, "text": {{json .Text}}},
    {"type": "TextBlock", "wrap": true, "text": {{json (print .Remedy)}}}]}}]}`,
}

const maxBody = 64 << 10

// sample holds what breaks a template that does not quote.
var sample = Event{Type: RunPaused, Time: time.Unix(0, 0).UTC(), Run: "a1b2", Seq: 7, Flow: "Backup", Subject: "Volume/default/\"v1\"",
	Labels: map[string]string{"team": "blue"}, Step: "Copy", Code: "DISK_FULL", Title: "the disk is full", Remedy: "Free \"space\".\nThen resume.", Message: "it said:\n\t\"no\" \\", Actor: "ann", Reason: "\"why\""}

func parseTemplate(text string) (*template.Template, error) {
	t, err := template.New("template").Option("missingkey=zero").Funcs(template.FuncMap{
		"json": func(v any) (string, error) {
			data, err := json.Marshal(v)
			return string(data), err
		},
		"remedy": func(e Event) string {
			if e.Remedy == "" {
				return ""
			}
			return "\nRemedy: " + e.Remedy
		},
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	if _, err := execute(t, sample); err != nil {
		return nil, err
	}
	return t, nil
}

type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxBody {
		return 0, fmt.Errorf("it makes more than %d bytes", maxBody)
	}
	return l.Buffer.Write(p)
}

func execute(t *template.Template, e Event) ([]byte, error) {
	var b limited
	if err := t.Execute(&b, e); err != nil {
		return nil, err
	}
	if !json.Valid(b.Bytes()) {
		return nil, errors.New("it makes no JSON where a value has quotes or lines: write {{json .Message}} without quotes around it")
	}
	return b.Bytes(), nil
}
