package statemachine

// EventName names what can happen to a resource.
type EventName string

// Event is what a checker has found, with the parameters for the flow.
type Event struct {
	Name   EventName
	Params map[string]interface{}
}

// CreateEvent makes an event.
func CreateEvent(name EventName, params map[string]interface{}) *Event {
	return &Event{Name: name, Params: params}
}

// EventChecker looks whether an event is due; nil: it is not.
type EventChecker func(resource StateResource) (*Event, error)
