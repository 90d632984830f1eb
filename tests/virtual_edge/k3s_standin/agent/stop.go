package agent

import "time"

// stopPatience keeps a stop below five seconds.
const stopPatience = 4 * time.Second
