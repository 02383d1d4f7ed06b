package kube

import "path"

// What a program needs that is run in the pod of an instance, or reads its log.
const (
	EngineContainer  = engineContainer
	ManagerContainer = watchContainer
	AgentPort        = agentPort // its /metrics is for everybody
)

// PasswordFile is the file in the pod of an instance with the password of the superuser postgres.
var PasswordFile = path.Join(secretPath, passwordKey)
