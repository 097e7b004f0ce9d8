// Real controllers under real faults, their histories judged by Porcupine and by our own checker: `benches/nemesis.sh`.
module heddle/benches/nemesis

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	golang.org/x/sys v0.49.0
)
