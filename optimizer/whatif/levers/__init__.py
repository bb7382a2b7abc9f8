"""What money can buy: traffic, context, latency, precision; a file each, each exact over the whole catalog."""
