# The agent of scenarios/own_agent in another language: Perl with its core modules. It keeps one JSON line a message.
use strict;
use warnings;
use HTTP::Tiny;
use IO::Handle;
use JSON::PP;

my $json = JSON::PP->new->canonical;
my $http = HTTP::Tiny->new;
my $path = "$ENV{CHAOS_DURABLE}/messages.jsonl";

sub post {
    my ($url, $body) = @_;
    my $answer = $http->post($url, { content => $body, headers => { "Content-Type" => "application/json" } });
    die "$url: $answer->{status} $answer->{content}\n" unless $answer->{success};
    return $answer->{content};
}

my @messages = ({ role => "user", content => "Book a trip to Oslo." });
if (open(my $file, "<", $path)) {
    @messages = (@messages, map { $json->decode($_) } grep { /\n\z/ } <$file>);
}
while ($messages[-1]{role} ne "assistant") {
    my $body = $json->encode({ model => "any", messages => \@messages });
    my $reply = $json->decode(post("$ENV{OPENAI_BASE_URL}/chat/completions", $body))->{choices}[0]{message};
    my @new = ($reply);
    for my $tool (@{ $reply->{tool_calls} || [] }) {
        my $result = post("$ENV{CHAOS_SERVICES_URL}/travel/$tool->{function}{name}", $tool->{function}{arguments});
        push @new, { role => "tool", tool_call_id => $tool->{id}, content => $result };
    }
    open(my $file, ">>", $path) or die "$path: $!\n";
    print $file map { $json->encode($_) . "\n" } @new;
    $file->flush && $file->sync && close($file) or die "$path: $!\n";
    push @messages, @new;
}
open(my $report, ">", "trip.md") or die "trip.md: $!\n";
print $report $messages[-1]{content};
close($report);
