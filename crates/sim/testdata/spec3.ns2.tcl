# The reference of tests/spec3.rs, for ns-2 2.35: ns spec3.ns2.tcl PROTOCOL STRIDE MULTIPATH WINDOW
#   single path: Static STRIDE 0 20 (DV STRIDE 0 20 gives the same)    scatter: DV STRIDE 1 20
# Nodes are created in the order of our node ids (hosts, edge, aggregation, core), so equal paths tie as ours do.
set protocol [lindex $argv 0]; set stride [lindex $argv 1]; set multipath [lindex $argv 2]; set window [lindex $argv 3]
set ns [new Simulator]
if {$multipath} { Node set multiPath_ 1 }
$ns rtproto $protocol
Agent/TCP set window_ $window
Agent/TCP set packetSize_ 1000
for {set i 0} {$i < 36} {incr i} { set n($i) [$ns node] }
proc link {a b} {
    global ns n
    $ns duplex-link $n($a) $n($b) 1Gb 50us DropTail
    $ns queue-limit $n($a) $n($b) 250
    $ns queue-limit $n($b) $n($a) 250
}
for {set h 0} {$h < 16} {incr h} { link $h [expr 16 + $h / 2] }
for {set e 0} {$e < 8} {incr e} { for {set a 0} {$a < 2} {incr a} { link [expr 16 + $e] [expr 24 + $e / 2 * 2 + $a] } }
for {set a 0} {$a < 8} {incr a} { for {set c 0} {$c < 2} {incr c} { link [expr 24 + $a] [expr 32 + $a % 2 * 2 + $c] } }
for {set x 0} {$x < 16} {incr x} {
    set tcp($x) [new Agent/TCP/Reno]
    set sink [new Agent/TCPSink]
    $ns attach-agent $n($x) $tcp($x)
    $ns attach-agent $n([expr ($x + $stride) % 16]) $sink
    $ns connect $tcp($x) $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($x)
    $ns at 1.0 "$ftp start"
}
proc finish {} {
    global tcp
    set sum 0
    for {set x 0} {$x < 16} {incr x} {
        set mbit [expr [$tcp($x) set ack_] * 8000.0 / 1e6]
        set sum [expr $sum + $mbit]
        lappend each [format %.0f $mbit]
    }
    puts "mean [format %.1f [expr $sum / 16]] Mbit/s: $each"
    exit 0
}
$ns at 2.0 "finish"
$ns run
