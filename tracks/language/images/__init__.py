"""Image–text models: the pretraining of a CLIP on captions, and image domains that it learns in sequence."""
