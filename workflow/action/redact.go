package action

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/internal/redact"
)

// mask replaces a secret.
const mask = "***"

// secrets resolves the secret references of one attempt and redacts their values in the texts of
// the attempt.
type secrets struct {
	task   *workflow.Task
	hidden []string // longest first
}

// text returns the text of a value.
func (s *secrets) text(v value) (string, error) {
	if v.secret == "" {
		return v.text, nil
	}
	resolved, err := s.task.Secret(v.secret)
	if err != nil {
		return "", err
	}
	s.hide(resolved)
	return v.prefix + resolved, nil
}

// hide adds a value to redact, in all its forms.
func (s *secrets) hide(secret string) {
	for _, form := range redact.Forms(secret) {
		if !slices.Contains(s.hidden, form) {
			s.hidden = append(s.hidden, form)
		}
	}
	slices.SortStableFunc(s.hidden, func(a, b string) int { return len(b) - len(a) })
}

// clean redacts the secrets in a text.
func (s *secrets) clean(text string) string {
	for _, secret := range s.hidden {
		text = strings.ReplaceAll(text, secret, mask)
	}
	return text
}

// cutEnd removes the beginning of a secret at the end of a text. cutStart removes the end of a
// secret at its start. So a text that was cut within a secret shows no part of it.
func (s *secrets) cutEnd(text string) string {
	most := 0
	for _, secret := range s.hidden {
		for n := min(len(secret)-1, len(text)); n > most; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				most = n
			}
		}
	}
	return text[:len(text)-most]
}

func (s *secrets) cutStart(text string) string {
	most := 0
	for _, secret := range s.hidden {
		for n := min(len(secret)-1, len(text)); n > most; n-- {
			if strings.HasPrefix(text, secret[len(secret)-n:]) {
				most = n
			}
		}
	}
	return text[most:]
}
