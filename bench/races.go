package bench

import "errors"

// errLost is what a check returns that did not find what must be there.
var errLost = errors.New("events are missing")

// Races are all races, in the order of the targets.
func Races() []Race {
	return []Race{
		appendRace(),
		positionRace(),
		replayRace(),
		resumeRace(),
		burstRace(),
		singleRace(),
		latencyRace(),
		idleRace(),
		durableRace(1),
		durableRace(8),
		durableRace(64),
		durableRace(512),
		idsRace(),
		heapRace(),
		correctRace(),
		outputRace(),
		publishRace(1, 100),
		publishRace(8, 100),
		publishRace(64, 1),
		producerRace(),
		streamRace(),
		productReplayRace(),
		productResumeRace(),
		productFanRace(),
		productIdleRace(),
		productHeapRace(),
		productTrueRace(),
		productWriteRace(),
		productOutputRace(),
		shortRace(1),
		shortRace(8),
		firstByteRace(),
		commandRace(),
		gatewayRace(),
		redisAppendRace(false),
		redisAppendRace(true),
		postgresAppendRace(),
		natsAppendRace(),
		engineReplayRace(redisEngine(), "XRANGE", redisRange),
		engineReplayRace(postgresEngine(), "SELECT", postgresSelect),
		engineReplayRace(natsEngine(), "ordered-consumer", natsConsume),
		engineWakeRace(redisEngine(), "XADD-PUBLISH", redisWake),
		engineWakeRace(postgresEngine(), "INSERT-NOTIFY", postgresWake),
		engineWakeRace(natsEngine(), "publish-subscribe", natsWake),
		compressRace(),
	}
}
