"""Which positions stayed in the cache, layer by layer, small enough to be kept with the results."""

BINS = 64
SHADES = 9  # a bin's digit: 0 nothing kept, 9 everything


def resident(evictions, prompt, fed, layers, page_tokens):
    """[layer] -> positions in the cache after `fed` tokens were decoded, from what the worker reported."""
    tables, length = [list(range(prompt)) for _ in range(layers)], prompt

    def grow(to):
        for table in tables:
            table.extend(range(length, to))
        return to

    for event in evictions:
        length = grow(prompt + max(0, event.step))
        for at, layer in enumerate(event.layers):
            if layer.kept:
                tables[at] = list(layer.kept)
            elif layer.dropped_block is not None:
                begin = layer.dropped_block * page_tokens
                del tables[at][begin : begin + page_tokens]
    grow(prompt + fed)
    return tables


def shade(tables, length):
    """One string of digits per layer: how much of each of up to 64 equal stretches of [0, length) was kept."""
    bins = min(BINS, length)
    sizes = [0] * bins
    for position in range(length):
        sizes[position * bins // length] += 1
    rows = []
    for table in tables:
        counts = [0] * bins
        for position in table:
            counts[position * bins // length] += 1
        rows.append("".join(str(round(SHADES * count / size)) for count, size in zip(counts, sizes)))
    return rows
