-- Product names in a range of manufacturer ids whose manufacturer makes at least one item
-- with one of eight combinations of category, colour, unit and size.
SELECT DISTINCT i1.i_product_name
FROM item i1
WHERE i1.i_manufact_id BETWEEN 738 AND 778
    AND (
        SELECT COUNT(*)
        FROM item i2
        WHERE i2.i_manufact = i1.i_manufact
            AND (
                (
                    i2.i_category = 'Women'
                    AND i2.i_color IN ('powder', 'khaki')
                    AND i2.i_units IN ('Ounce', 'Oz')
                    AND i2.i_size IN ('medium', 'extra large')
                )
                OR (
                    i2.i_category = 'Women'
                    AND i2.i_color IN ('brown', 'honeydew')
                    AND i2.i_units IN ('Bunch', 'Ton')
                    AND i2.i_size IN ('N/A', 'small')
                )
                OR (
                    i2.i_category = 'Men'
                    AND i2.i_color IN ('floral', 'deep')
                    AND i2.i_units IN ('N/A', 'Dozen')
                    AND i2.i_size = 'petite'
                )
                OR (
                    i2.i_category = 'Men'
                    AND i2.i_color IN ('light', 'cornflower')
                    AND i2.i_units IN ('Box', 'Pound')
                    AND i2.i_size IN ('medium', 'extra large')
                )
                OR (
                    i2.i_category = 'Women'
                    AND i2.i_color IN ('midnight', 'snow')
                    AND i2.i_units IN ('Pallet', 'Gross')
                    AND i2.i_size IN ('medium', 'extra large')
                )
                OR (
                    i2.i_category = 'Women'
                    AND i2.i_color IN ('cyan', 'papaya')
                    AND i2.i_units IN ('Cup', 'Dram')
                    AND i2.i_size IN ('N/A', 'small')
                )
                OR (
                    i2.i_category = 'Men'
                    AND i2.i_color IN ('orange', 'frosted')
                    AND i2.i_units IN ('Each', 'Tbl')
                    AND i2.i_size = 'petite'
                )
                OR (
                    i2.i_category = 'Men'
                    AND i2.i_color IN ('forest', 'ghost')
                    AND i2.i_units IN ('Lb', 'Bundle')
                    AND i2.i_size IN ('medium', 'extra large')
                )
            )
    ) > 0
ORDER BY i1.i_product_name
LIMIT 100;
