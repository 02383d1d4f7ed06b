package kube

import (
	"path"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// What a program needs that is run in the pod of an instance, or reads its log.
const (
	EngineContainer  = engineContainer
	ManagerContainer = watchContainer
	AgentPort        = agentPort // its /metrics is for everybody
)

// PasswordFile is the file in the pod of an instance with the password of the superuser postgres.
var PasswordFile = path.Join(secretPath, passwordKey)

// SecretName returns the name of the Secret with the token and the password of a cluster.
func SecretName(c port.Ref) string { return secretName(c) }
