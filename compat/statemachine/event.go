package statemachine

// EventName is the name of an event.
type EventName string

// Event is the result of an EventChecker, with the parameters of the flow.
type Event struct {
	Name   EventName
	Params map[string]interface{}
}

// CreateEvent returns an event.
func CreateEvent(name EventName, params map[string]interface{}) *Event {
	return &Event{Name: name, Params: params}
}

// EventChecker returns an event if it is due, otherwise nil.
type EventChecker func(resource StateResource) (*Event, error)
