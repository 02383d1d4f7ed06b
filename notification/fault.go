package notification

import "github.com/pawl-dev/pawl/fault"

// The faults of notifications.
var (
	Invalid = fault.Declare(fault.Kind{
		Code: "NOTIFICATION_INVALID", Class: fault.Invalid,
		Title:  "the spec of the notification cannot be used",
		Remedy: "Fix what the message names and apply the notification again.",
	})
	SecretUnusable = fault.Declare(fault.Kind{
		Code: "NOTIFICATION_SECRET_UNUSABLE", Class: fault.Blocked,
		Title:  "a secret of the notification cannot be used",
		Remedy: "Put whsec_ and 24 to 64 bytes in base64 into the secret that the message names, or a URL where urlFrom names it. Nothing is lost: what waits is sent then.",
	})
	Gone = fault.Declare(fault.Kind{
		Code: "NOTIFICATION_GONE", Class: fault.Blocked,
		Title:  "the receiver answered 410 Gone: it wants no more webhooks",
		Remedy: "Correct the URL, or delete the notification. What waits is sent after a change of the spec.",
	})
	Undelivered = fault.Declare(fault.Kind{
		Code: "NOTIFICATION_UNDELIVERED", Class: fault.Blocked,
		Title:  "the receiver did not accept the test webhook",
		Remedy: "Read the message: correct the URL or the receiver, then try again with `pawl notify test NAME`. What was given up meanwhile is sent again by `pawl notify redeliver NAME`.",
	})
)
