package route

import (
	"testing"
)

func TestRoleText(t *testing.T) {
	for _, role := range []Role{Anyone, User, DomainAdmin, Operator} {
		text, _ := role.MarshalText()
		var back Role
		if err := back.UnmarshalText(text); err != nil || back != role {
			t.Errorf("%s became %s, %v", role, back, err)
		}
	}
	var r Role
	if err := r.UnmarshalText([]byte("root")); err == nil {
		t.Error("root is a role")
	}
}
